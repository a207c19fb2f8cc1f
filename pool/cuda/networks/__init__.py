"""Operations of networks with two perspectives and with layer stacks by bucket, and their loss."""
