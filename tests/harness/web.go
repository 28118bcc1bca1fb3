package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/phorge-gantry/gantry/contract/scratch"
)

// Web serves a directory of PHP as an administrator would: nginx before
// php-fpm. Both are private: their files are in one temporary directory and the
// port is open on the loopback interface only.
//
// Its methods are not safe for use at the same time, except URL.
type Web struct {
	dir      string
	root     string
	children int
	port     int
	env      []string
	fpm      *scratch.Process
	nginx    *scratch.Process
	reaper   *scratch.Reaper
}

// StartWeb serves root/index.php, which gets every path as Phorge wants it,
// with so many children of php-fpm. Call Stop when it is no longer needed.
func StartWeb(root string, children int) (*Web, error) {
	return startWeb(root, children, os.Environ())
}

// StartWeb serves the scratch Phorge and makes it know its own address.
func (p *Phorge) StartWeb(children int) (*Web, error) {
	w, err := startWeb(filepath.Join(p.Root(), "webroot"), children, p.Environment())
	if err != nil {
		return nil, err
	}
	if err := p.Configure(map[string]any{"phabricator.base-uri": w.URL() + "/"}); err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	return w, nil
}

func startWeb(root string, children int, env []string) (*Web, error) {
	dir, err := os.MkdirTemp("", "gantry-web-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for a web server: %w", err)
	}
	w := &Web{dir: dir, root: root, children: children, env: env}
	// A master that is killed leaves its children, whose titles carry the name
	// of their pool.
	if w.reaper, err = scratch.StartReaper(filepath.Base(dir), "php-fpm: pool", dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if w.port, err = scratch.FreePort(); err == nil {
		err = w.configure()
	}
	if err == nil {
		err = errors.Join(w.StartFPM(), w.StartNginx())
	}
	if err != nil {
		return nil, errors.Join(err, w.Stop())
	}
	return w, nil
}

var fpmConfig = template.Must(template.New("fpm").Parse(`[global]
error_log = {{.Dir}}/fpm.log
daemonize = no
[{{.Pool}}]
{{if .Root}}user = root
group = root
{{end}}listen = {{.Dir}}/fpm.sock
pm = static
pm.max_children = {{.Children}}
catch_workers_output = yes
decorate_workers_output = no
clear_env = no
php_admin_flag[log_errors] = on
php_admin_value[error_log] = {{.Dir}}/php.log
`))

// One process, so that nothing is left when it is killed. Bodies travel as they
// come: the limits under test are PHP's and our own.
var nginxConfig = template.Must(template.New("nginx").Parse(`daemon off;
master_process off;
{{if .Root}}user root;
{{end}}pid {{.Dir}}/nginx.pid;
error_log {{.Dir}}/nginx.log;
events { worker_connections 512; }
http {
  access_log {{.Dir}}/access.log;
  client_body_temp_path {{.Dir}}/body;
  proxy_temp_path {{.Dir}}/proxy;
  fastcgi_temp_path {{.Dir}}/fastcgi;
  uwsgi_temp_path {{.Dir}}/uwsgi;
  scgi_temp_path {{.Dir}}/scgi;
  client_max_body_size 512m;
  fastcgi_read_timeout 600s;
  server {
    listen 127.0.0.1:{{.Port}};
    root {{.Docs}};
    location / { rewrite ^/(.*)$ /index.php?__path__=/$1 last; }
    location = /index.php {
      fastcgi_pass unix:{{.Dir}}/fpm.sock;
      fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
      fastcgi_param SCRIPT_NAME $fastcgi_script_name;
      fastcgi_param QUERY_STRING $query_string;
      fastcgi_param REQUEST_METHOD $request_method;
      fastcgi_param REQUEST_URI $request_uri;
      fastcgi_param CONTENT_TYPE $content_type;
      fastcgi_param CONTENT_LENGTH $content_length;
      fastcgi_param SERVER_PROTOCOL $server_protocol;
      fastcgi_param SERVER_NAME $server_name;
      fastcgi_param SERVER_PORT $server_port;
      fastcgi_param SERVER_ADDR $server_addr;
      fastcgi_param REMOTE_ADDR $remote_addr;
      fastcgi_param REMOTE_PORT $remote_port;
    }
  }
}
`))

func (w *Web) configure() error {
	values := map[string]any{
		"Dir": w.dir, "Docs": w.root, "Pool": filepath.Base(w.dir), "Children": w.children, "Port": w.port,
		"Root": os.Getuid() == 0,
	}
	for name, text := range map[string]*template.Template{"fpm.conf": fpmConfig, "nginx.conf": nginxConfig} {
		f, err := os.Create(filepath.Join(w.dir, name))
		if err != nil {
			return err
		}
		if err := errors.Join(text.Execute(f, values), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// URL answers the address, without a slash at its end.
func (w *Web) URL() string { return "http://127.0.0.1:" + strconv.Itoa(w.port) }

// StartFPM starts php-fpm, also in the place of one that was killed.
func (w *Web) StartFPM() error {
	if err := os.Remove(w.socket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the socket of php-fpm: %w", err)
	}
	path, err := fpmProgram()
	if err != nil {
		return err
	}
	args := []string{"--fpm-config", filepath.Join(w.dir, "fpm.conf")}
	if os.Getuid() == 0 {
		args = append(args, "--allow-to-run-as-root")
	}
	if w.fpm, err = w.start(path, args...); err != nil {
		return err
	}
	return awaitUp("php-fpm", w.fpm, filepath.Join(w.dir, "fpm.log"), func() error {
		c, err := net.Dial("unix", w.socket())
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// StartNginx starts nginx, also in the place of one that was killed.
func (w *Web) StartNginx() error {
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx"
	}
	if w.nginx, err = w.start(path, "-c", filepath.Join(w.dir, "nginx.conf"), "-e", filepath.Join(w.dir, "nginx.log")); err != nil {
		return err
	}
	return awaitUp("nginx", w.nginx, filepath.Join(w.dir, "nginx.log"), func() error {
		c, err := net.Dial("tcp", strings.TrimPrefix(w.URL(), "http://"))
		if err != nil {
			return err
		}
		return c.Close()
	})
}

func (w *Web) start(path string, args ...string) (*scratch.Process, error) {
	log, err := os.OpenFile(filepath.Join(w.dir, "output.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Env = w.env
	cmd.Stdout, cmd.Stderr = log, log
	p, err := scratch.Spawn(cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return p, nil
}

// awaitUp waits until a server answers.
func awaitUp(name string, p *scratch.Process, log string, up func() error) error {
	if err := p.AwaitUp(patience, func(context.Context) error { return up() }); err != nil {
		text, _ := os.ReadFile(log)
		return errors.Join(fmt.Errorf("start %s: %w\n%s", name, err, text), p.Kill())
	}
	return nil
}

// fpmProgram finds php-fpm, whose name holds its version in Debian.
func fpmProgram() (string, error) {
	if path, err := exec.LookPath("php-fpm"); err == nil {
		return path, nil
	}
	found, err := filepath.Glob("/usr/sbin/php-fpm*")
	if err != nil || len(found) == 0 {
		return "", fmt.Errorf("php-fpm is neither in PATH nor in /usr/sbin; on Debian and Ubuntu: apt-get install php-fpm")
	}
	return slices.Max(found), nil
}

// FPM answers the process id of the master of php-fpm.
func (w *Web) FPM() int { return w.fpm.PID() }

// Nginx answers the process id of nginx.
func (w *Web) Nginx() int { return w.nginx.PID() }

// KillFPM ends the master of php-fpm with SIGKILL. Its children go on.
func (w *Web) KillFPM() error { return w.fpm.Kill() }

// KillNginx ends nginx with SIGKILL.
func (w *Web) KillNginx() error { return w.nginx.Kill() }

// Children answers the process ids of the children of php-fpm, of a killed
// master's as well.
func (w *Web) Children() []int {
	return titledProcesses("php-fpm: pool " + filepath.Base(w.dir))
}

// Logs answers what nginx, php-fpm and PHP have logged, the access log
// included.
func (w *Web) Logs() (string, error) {
	files, err := filepath.Glob(filepath.Join(w.dir, "*.log"))
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&all, "--- %s\n%s", filepath.Base(file), text)
	}
	return all.String(), nil
}

// Stop ends both and removes everything they left.
func (w *Web) Stop() error {
	http.DefaultClient.CloseIdleConnections()
	var errs []error
	for _, p := range []*scratch.Process{w.nginx, w.fpm} {
		if p != nil {
			errs = append(errs, p.Kill())
		}
	}
	return errors.Join(append(errs, w.reaper.Reap())...)
}

func (w *Web) socket() string { return filepath.Join(w.dir, "fpm.sock") }

// titledProcesses answers the processes whose title begins so.
func titledProcesses(prefix string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		title, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		text := strings.TrimRight(strings.ReplaceAll(string(title), "\x00", " "), " ")
		if !strings.HasPrefix(text+" ", prefix+" ") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
