package host

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/phorge-gantry/gantry/plugins"
	"github.com/phorge-gantry/gantry/plugins/pluginpb"
)

// siteRefused is why a binary that wants a Phorge is not given one. It is not
// the process that failed.
type siteRefused struct{ error }

func (r siteRefused) Unwrap() error { return r.error }

// introduce tells a process of the Phorge that it works for, when its handlers
// want one and the manifest allows it. The connection is encrypted, and known
// to be the process that was started; what is said on it is nowhere logged.
func (p *process) introduce(ctx context.Context, r *peer) error {
	if len(r.databases) == 0 {
		return nil
	}
	wants := "the databases of " + strings.Join(r.databases, ", ")
	if len(r.options) > 0 {
		wants += " and the options " + strings.Join(r.options, ", ")
	}
	switch {
	case !p.plugin.Phorge:
		return siteRefused{fmt.Errorf("%s wants %s of Phorge: write `phorge: true` beside its path in the manifest to let it have them, with the password of the databases", p.plugin.Path, wants)}
	case p.config.Site == nil:
		return siteRefused{fmt.Errorf("%s wants %s of Phorge, and this Gantry knows only the queue: name the Phorge by `phorge` in its configuration", p.plugin.Path, wants)}
	}
	site, err := p.config.Site(r.databases, r.options)
	if err != nil {
		return siteRefused{fmt.Errorf("%s wants %s of Phorge: %w", p.plugin.Path, wants, err)}
	}
	told := &pluginpb.Site{Namespace: site.Namespace, Dsns: site.DSNs, Options: map[string][]byte{}}
	for key, value := range site.Options {
		told.Options[key] = value
	}
	if _, err := r.service.UseSite(ctx, told); err != nil {
		return fmt.Errorf("tell it of the Phorge: %w", err)
	}
	return nil
}

// effectsOf reads effects from the wire.
func effectsOf(m *pluginpb.Effects) plugins.Effects {
	var e plugins.Effects
	for _, r := range m.GetRequests() {
		sent := plugins.Sent{Method: string(r.GetMethod()), URL: string(r.GetUrl()), Header: http.Header{}, Body: r.GetBody()}
		for _, header := range r.GetHeaders() {
			sent.Header[string(header.GetName())] = textsOf(header.GetValues())
		}
		e.Requests = append(e.Requests, sent)
	}
	for _, w := range m.GetWrites() {
		e.Writes = append(e.Writes, plugins.Written{
			Database: w.GetDatabase(), Query: string(w.GetQuery()), Args: textsOf(w.GetArgs()), Rows: w.GetRows(),
		})
	}
	return e
}

func textsOf(all [][]byte) []string {
	var texts []string
	for _, text := range all {
		texts = append(texts, string(text))
	}
	return texts
}
