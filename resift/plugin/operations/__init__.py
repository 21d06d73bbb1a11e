"""Operations on a cluster and its indices: functions that return a plan, which can be shown and then run."""
