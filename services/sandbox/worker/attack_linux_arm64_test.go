package worker

func ownAttacks() map[string]attack { return nil }
