package main

import (
	"bytes"
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"

	"github.com/phorge-gantry/gantry/contract"
	"github.com/phorge-gantry/gantry/contract/mask"
	"github.com/phorge-gantry/gantry/plugins/scaffold"
	"github.com/phorge-gantry/gantry/tasks"
	"github.com/phorge-gantry/gantry/tasks/phorge"
	"github.com/spf13/cobra"
)

// newCases is what `contract new` was asked for.
type newCases struct {
	class string
	dir   string
	name  string
	count int
	rows  []string
	keep  []string
}

// maxLookedAt is how many tasks of a class are looked at for different shapes.
const maxLookedAt = 5000

func (a *app) contractNewCommand() *cobra.Command {
	var n newCases
	cmd := &cobra.Command{
		Use:   "new CLASS --cases DIR",
		Short: "Write a first case of a class, or cases of real tasks",
		Long: `Write a skeleton of a case into a folder of cases. With --from-queue, write cases
of that many real tasks of the class, from the queue and then the archive, of as
many different shapes of data as there are. The queue is only read.

What real tasks say about people is masked, so that the file can be shown to
anybody: PHIDs are renamed, and so are the hosts of URLs, IP and e-mail
addresses, tokens, long numbers, and all text but the words of Phorge's own
source. A stand-in is of the kind and the class of length of what it stands for,
is the same wherever that stands, and is made of nothing but the order of
appearance. What was masked is in the "about" of each case. Numbers of up to
three digits, keys of the data, and those kinds of PHIDs that Phorge itself has
are kept; of a time its distance from now, up to an hour, and beyond that how
large it is. --keep keeps the values of a data key or a column, or the texts
that a /pattern/ matches as a whole (/PHID-ACME/: a kind of PHIDs of the site's
own); look at the file before you show it, whenever you use that.

--rows names tables in which the rows are looked for that the data refers to by
PHID, and those that these refer to. They come along, masked, as they are now:
what the task changed when it ran has to be put back by hand. A third part names a
column by which the data refers to rows instead: feed.feed_storydata.chronologicalKey.`,
		Example: `  gantry contract new AcmeGreetingWorker --cases cases
  gantry contract new HeraldWebhookWorker --cases cases --from-queue 5 \
    --rows herald.herald_webhookrequest,herald.herald_webhook --keep retry`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("name one class, as in `%s HeraldWebhookWorker --cases cases`", cmd.CommandPath())
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&n.dir, "cases", "", "`folder` of cases to write to")
	flags.StringVar(&n.name, "name", "", "`name` of the file and of the cases (default from the class)")
	flags.IntVar(&n.count, "from-queue", 0, "make cases of `n` real tasks")
	flags.StringSliceVar(&n.rows, "rows", nil, "`tables` whose rows come along with real tasks, as database.table")
	flags.StringArrayVar(&n.keep, "keep", nil, "data `key`, column or /pattern/ that is not masked; can be repeated")
	for _, name := range []string{"rows", "keep"} {
		flags.Lookup(name).DefValue = ""
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n.class = args[0]
		file, err := n.check(cmd.Flags().Changed("from-queue"))
		if err != nil {
			return err
		}
		if n.count == 0 {
			content, err := n.skeleton()
			if err != nil {
				return err
			}
			return a.writeCases(n, file, content, 1)
		}
		return a.withStore(cmd, func(ctx context.Context, c *config, s store) error {
			return a.casesFromQueue(ctx, c, s, n, file)
		})
	}
	return cmd
}

var caseName = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// check refuses what cannot be written, and answers the file that is to be.
func (n *newCases) check(fromQueue bool) (string, error) {
	switch {
	case n.class == "" || len(n.class) > 64:
		return "", usagef("%q is not the name of a class, of 1 to 64 bytes", n.class)
	case n.dir == "":
		return "", usagef("name the folder of cases with --cases")
	case fromQueue && n.count < 1:
		return "", usagef("--from-queue %d must be at least 1", n.count)
	case !fromQueue && len(n.rows)+len(n.keep) > 0:
		return "", usagef("--rows and --keep are about real tasks: say how many with --from-queue")
	}
	if n.name == "" {
		n.name = strings.ToLower(strings.Join(scaffold.Words(n.class), "-"))
	}
	if !caseName.MatchString(n.name) {
		return "", usagef("%q is no name for cases: it is small letters and digits, joined by single dashes; give one with --name", n.name)
	}
	if n.name == "world" {
		return "", usagef("world.yaml is what all cases of a folder start from; give another name with --name")
	}
	file := filepath.Join(n.dir, n.name+".yaml")
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return "", usagef("%s is there already; give another name with --name", file)
	}
	return file, nil
}

//go:embed contract_new.yaml
var skeletonText string

// skeleton answers a file with one case, and what else there can be in it.
func (n newCases) skeleton() ([]byte, error) {
	var content bytes.Buffer
	err := template.Must(template.New("").Parse(skeletonText)).Execute(&content, struct{ Name, Class string }{n.name, n.class})
	return content.Bytes(), err
}

// writeCases writes a file of cases, never over another.
func (a *app) writeCases(n newCases, file string, content []byte, count int) error {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of cases: %w", err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("write the cases: %w", err)
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write the cases: %w", err)
	}
	if a.print.json {
		return a.print.document(struct {
			File  string `json:"file"`
			Cases int    `json:"cases"`
		}{file, count})
	}
	a.print.linef("%s written to %s.", plural(count, "case was", "cases were"), file)
	a.print.linef("Say in it what a task finds; then let PHP do it with `gantry contract record --cases %s`.", n.dir)
	return nil
}

// casesFromQueue writes cases of real tasks.
func (a *app) casesFromQueue(ctx context.Context, c *config, s store, n newCases, file string) error {
	var tables []mask.Table
	for _, text := range n.rows {
		table, err := mask.ParseTable(text)
		if err != nil {
			return usagef("--rows: %w", err)
		}
		tables = append(tables, table)
	}
	now, err := s.Now(ctx)
	if err != nil {
		return err
	}
	masker, err := mask.New(now, n.keep)
	if err != nil {
		return usagef("--keep: %w", err)
	}
	records, err := tasksOf(ctx, s, n.class)
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return coded{fmt.Errorf("there is no task of class %s in the queue, and none in the archive; without --from-queue, a skeleton is written", n.class), exitNothing}
	}
	databases := databases{config: c}
	defer databases.close()
	look, err := databases.look(tables)
	if err != nil {
		return err
	}
	var cases []contract.Case
	for i, record := range mask.Spread(records, n.count) {
		made, err := masker.Case(ctx, fmt.Sprintf("%s-%d", n.name, i+1), record, tables, look)
		if err != nil {
			return err
		}
		cases = append(cases, made)
	}
	content, err := contract.EncodeCases(cases)
	if err != nil {
		return err
	}
	if len(cases) < n.count {
		a.warnf("there are only %d tasks of class %s", len(cases), n.class)
	}
	return a.writeCases(n, file, content, len(cases))
}

// tasksOf answers tasks of a class, those in the queue before archived ones.
func tasksOf(ctx context.Context, op tasks.Operator, class string) (found []tasks.Record, err error) {
	for _, state := range []tasks.State{tasks.Active, tasks.Archived} {
		filter := tasks.Filter{State: state, Class: class, Limit: pageSize}
		for len(found) < maxLookedAt {
			page, err := op.List(ctx, filter)
			if err != nil {
				return nil, err
			}
			found = append(found, page.Tasks...)
			if filter.After = page.Next; page.Next == 0 {
				break
			}
		}
	}
	return found, nil
}

// databases are connections to the databases of applications.
type databases struct {
	config *config
	open   map[string]*sql.DB // by DSN
}

// look answers how rows are looked for, nil when they are not.
func (d *databases) look(tables []mask.Table) (mask.Look, error) {
	if len(tables) == 0 {
		return nil, nil
	}
	namespace, err := d.config.namespace()
	if err != nil {
		return nil, err
	}
	d.open = map[string]*sql.DB{}
	return mask.In(namespace, func(application string) (*sql.DB, error) {
		dsn, err := d.config.databaseDSN(application)
		if err != nil || d.open[dsn] != nil {
			return d.open[dsn], err
		}
		db, err := sql.Open("mysql", dsn)
		if err == nil {
			d.open[dsn] = db
		}
		return db, err
	}), nil
}

func (d *databases) close() {
	for _, db := range d.open {
		db.Close()
	}
}

// databaseDSN answers the DSN of a server that has the database of an
// application. Which database of it is selected does not matter.
func (c *config) databaseDSN(application string) (string, error) {
	if c.Phorge == "" {
		return c.storeDSN()
	}
	site, err := phorge.ReadPhorge(c.Phorge)
	if err != nil {
		return "", coded{err, exitUsage}
	}
	return site.Database(application)
}
