package contract

// Folder is a folder of cases, with what was recorded of them.
type Folder struct {
	Dir   string
	Cases []Case // in the order of files and of their lists, each with its whole world
}

// LoadFolder reads the cases of a folder.
func LoadFolder(dir string) (*Folder, error) { return &Folder{Dir: dir}, nil }

// Golden answers the recorded observation of PHP. An error wraps fs.ErrNotExist
// when the case was not recorded.
func (f *Folder) Golden(name string) (Observation, error) { return Observation{}, nil }

// SaveGolden records an observation of PHP.
func (f *Folder) SaveGolden(name string, o Observation) error { return nil }

// GoldenOfGo answers the recorded observation of Go, of a case that declares a
// deviation.
func (f *Folder) GoldenOfGo(name string) (Observation, error) { return Observation{}, nil }

// SaveGoldenOfGo records an observation of Go.
func (f *Folder) SaveGoldenOfGo(name string, o Observation) error { return nil }

// Want answers what Go is to be held against: what PHP did, or what Go is
// declared to do instead.
func (f *Folder) Want(c Case) (Observation, error) { return Observation{}, nil }

// Schema answers the recorded table definitions, schema.sql.
func (f *Folder) Schema() (string, error) { return "", nil }

// SaveSchema records them.
func (f *Folder) SaveSchema(sql string) error { return nil }

// Stale answers the recorded files that belong to no case.
func (f *Folder) Stale() ([]string, error) { return nil, nil }

// Tables are the tables that the rows of the cases name, sorted.
func (f *Folder) Tables() []string { return nil }

// EncodeCases writes cases as a file of them, which LoadFolder reads.
func EncodeCases(cases []Case) ([]byte, error) { return nil, nil }
