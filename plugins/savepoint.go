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
	d.turn.Lock()
	defer d.turn.Unlock()
	if err := d.goesOn(); err != nil {
		return nil, err
	}
	d.points++
	p := &savepoint{shadowed: d, ctx: ctx, run: s, name: fmt.Sprintf("gantry%d", d.points), writes: s.writes(application)}
	if err := d.session.run("SAVEPOINT "+p.name, mark); err != nil {
		return nil, err
	}
	d.whole = true
	return p, nil
}

func (p *savepoint) Commit() error {
	if err := p.ctx.Err(); err != nil {
		return errors.Join(err, p.Rollback())
	}
	return p.leave("RELEASE SAVEPOINT ")
}

func (p *savepoint) Rollback() error {
	err := p.leave("ROLLBACK TO SAVEPOINT ")
	p.run.keep(p.application, p.writes)
	return err
}

// leave ends the transaction within that of the run, which goes on.
func (p *savepoint) leave(how string) error {
	defer p.run.alone()()
	p.turn.Lock()
	defer p.turn.Unlock()
	err := p.goesOn()
	if err == nil {
		err = p.session.run(how + p.name)
	}
	p.whole, p.ended = false, nil
	if again := p.session.run(mark); err == nil {
		err = again
	}
	if err != nil {
		p.run.keep(p.application, p.writes)
	}
	return err
}
