"""gRPC sessions between the referee and bots."""
