"""Generated from proto/deepsea/ladder/v1/ladder.proto by tools/gen_proto.py; not to be edited."""
