"""What measures and trains: evaluation, training, word2doc, EmBoost, baselines. No served search imports it."""
