"""Generated from proto/deepsea/play/v1/play.proto by tools/gen_proto.py; not to be edited."""
