package plugins

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// configOption is how Phorge reads its options: PhabricatorConfigDatabaseSource.
const configOption = `SELECT configKey, value FROM config_entry WHERE namespace = 'default' AND configKey = ? AND isDeleted = 0`

// Option reads an option of Phorge's configuration, which Handler.Options
// names, into what into points to, as encoding/json does. It keeps its value,
// the option's default, when nobody set the option; one that is set to null
// becomes the zero value.
//
// As in PhabricatorEnv, the database (what administrators set on the web) goes
// over conf/local/local.json, for locked options too: Phorge complains about
// those and heeds them. The database is asked at every call. The file is as it
// was when the process started, since PHP, too, reads it once. Options that a
// PhabricatorConfigSiteSource sets are not seen.
func (t *Task) Option(ctx context.Context, key string, into any) error {
	value, set, err := t.reach().option(ctx, key)
	if err != nil {
		return fmt.Errorf("option %s: %w", key, err)
	}
	if !set {
		return nil
	}
	target := reflect.ValueOf(into)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("option %s: it is to be read into a %T, which is no pointer", key, into)
	}
	target.Elem().SetZero() // a map would keep what its default has
	if unmarshal(value, into) != nil {
		// The error quotes the value, which may be a secret.
		return fmt.Errorf("option %s: what it is set to does not fit into a %s", key, target.Elem().Type())
	}
	return nil
}

func (a *attempt) option(ctx context.Context, key string) (value json.RawMessage, set bool, err error) {
	if err := a.free(false); err != nil {
		return nil, false, err
	}
	if !slices.Contains(a.handler.Options, key) {
		return nil, false, fmt.Errorf("the handler of %s does not name it in its Options", a.handler.Class)
	}
	config := &database{attempt: a, application: configApplication, internal: true}
	var stored string
	var content []byte
	switch err := config.QueryRow(ctx, configOption, key).Scan(&stored, &content); {
	case err == nil && stored == key: // the column does not tell capitals from small letters
		return content, true, nil
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return nil, false, err
	}
	value, set = a.site.Options[key]
	return value, set, nil
}
