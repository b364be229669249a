"""Generated from proto/deepsea/v1/deepsea.proto by tools/gen_proto.py; not to be edited."""
