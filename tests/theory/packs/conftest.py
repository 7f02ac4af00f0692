"""The packages here are claim packs, tried by test_packs.py as others would install them; pytest leaves them alone."""

collect_ignore_glob = ["*"]
