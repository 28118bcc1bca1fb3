package queueapi

// Routes answers every method and path.
func Routes() (all []string) {
	for path, methods := range routes {
		for method := range methods {
			all = append(all, method+" "+path)
		}
	}
	return all
}

// Gathered answers how many enqueues wait for the next commit.
func (a *API) Gathered() (n int) {
	for _, q := range a.queues {
		q.gather.mu.Lock()
		n += len(q.gather.pending)
		q.gather.mu.Unlock()
	}
	return n
}

// Held answers how many bytes of bodies are held.
func (a *API) Held() int64 { return a.bodies.Load() }
