package plugins

import (
	"context"
	"errors"
	"fmt"
)

// savepoint is a transaction within the one of a shadow run.
type savepoint struct {
	*shadowed
	ctx    context.Context // that ends the transaction
	run    *shadow
	name   string
	writes int // noted before it
}

func (s *shadow) savepoint(ctx context.Context, application string) (transaction, error) {
	defer s.alone()()
	d, err := s.database(application)
	if err != nil {
		return nil, err
	}
	d.points++
	p := &savepoint{shadowed: d, ctx: ctx, run: s, name: fmt.Sprintf("gantry%d", d.points), writes: len(s.effects.Writes)}
	_, err = d.ExecContext(ctx, "SAVEPOINT "+p.name)
	return p, err
}

func (p *savepoint) Commit() error {
	if err := p.ctx.Err(); err != nil {
		return errors.Join(err, p.Rollback())
	}
	defer p.run.alone()()
	_, err := p.Exec("RELEASE SAVEPOINT " + p.name)
	return err
}

func (p *savepoint) Rollback() error {
	defer p.run.alone()()
	p.run.mu.Lock()
	p.run.effects.Writes = p.run.effects.Writes[:p.writes]
	p.run.mu.Unlock()
	_, err := p.Exec("ROLLBACK TO SAVEPOINT " + p.name)
	return err
}
