"""Programs that are copied into environments' folders; of the client they may import only `sandpool.env`."""
