package gateway

// Routes returns all routes of s, each with the scopes of which one is needed; none for one that is open to all.
func (s *Service) Routes() map[string][]string { return s.server.Handler.(*front).scopes }
