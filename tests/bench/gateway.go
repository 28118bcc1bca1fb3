package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/phorge-gantry/gantry/contract/scratch"
	"github.com/phorge-gantry/gantry/tasks/token"
	"github.com/phorge-gantry/gantry/tests/harness"
)

// ways are two ways to the same web server: through an nginx and through
// bridge/gateway.
type ways struct {
	nginx, gateway string // addresses
	token          string
}

// conduitAnswer is about what a small method answers.
const conduitAnswer = `{"result":{"phid":"PHID-USER-aaaaaaaaaaaaaaaaaaaa","userName":"alice","realName":"Alice","image":"https://phorge.example.com/file/data/x","uri":"https://phorge.example.com/p/alice/","roles":["verified","approved","activated"]},"error_code":null,"error_info":null}`

// The nginx that passes on keeps connections, checks the token and logs each
// call, as the gateway does. Each is one process, so that nothing is left when
// it is killed.
var nginxWays = template.Must(template.New("nginx").Parse(`daemon off;
master_process off;
{{if .Root}}user root;
{{end}}pid {{.Dir}}/{{.Name}}.pid;
error_log {{.Dir}}/{{.Name}}.log;
events { worker_connections 512; }
http {
  client_body_temp_path {{.Dir}}/{{.Name}}-body;
  proxy_temp_path {{.Dir}}/{{.Name}}-proxy;
  fastcgi_temp_path {{.Dir}}/{{.Name}}-fastcgi;
  uwsgi_temp_path {{.Dir}}/{{.Name}}-uwsgi;
  scgi_temp_path {{.Dir}}/{{.Name}}-scgi;
  keepalive_requests 1000000000;
{{if .Upstream}}
  access_log {{.Dir}}/{{.Name}}-access.log;
  upstream phorge { server {{.Upstream}}; keepalive 64; keepalive_requests 1000000000; }
  server {
    listen 127.0.0.1:{{.Port}};
    location /api/ {
      if ($http_x_service_token != "{{.Token}}") { return 401; }
      proxy_pass http://phorge;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header X-Service-Token "";
      proxy_set_header X-Forwarded-For $remote_addr;
    }
  }
{{else}}
  access_log off;
  server {
    listen 127.0.0.1:{{.Port}};
    location /api/ { default_type application/json; return 200 '{{.Answer}}'; }
  }
{{end}}
}
`))

// startGateways makes ways to PHP, in a script that does nothing, which is less
// than any Phorge does, and to a web server that answers at once, which shows
// what the ways cost.
func (b *bench) startGateways(context.Context) error {
	root := b.program("webroot")
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	script := fmt.Sprintf("<?php header('Content-Type: application/json'); header('Content-Length: %d'); echo '%s';", len(conduitAnswer), conduitAnswer)
	if err := os.WriteFile(filepath.Join(root, "index.php"), []byte(script), 0o644); err != nil {
		return err
	}
	web, err := harness.StartWeb(root, lines)
	if err != nil {
		return err
	}
	b.atClose(web.Stop)
	if b.toPHP, err = b.startWays("php", strings.TrimPrefix(web.URL(), "http://")); err != nil {
		return err
	}
	bare, err := b.startNginx("bare", "", "")
	if err != nil {
		return err
	}
	b.toBare, err = b.startWays("bare", bare)
	return err
}

// startWays starts both ways to a web server.
func (b *bench) startWays(name, upstream string) (w ways, err error) {
	secret, digest := token.New()
	w.token = secret
	if w.nginx, err = b.startNginx("to-"+name, upstream, secret); err != nil {
		return w, err
	}
	w.gateway, err = b.startGateway("to-"+name, upstream, digest)
	return w, err
}

// startGateway starts bridge/gateway in a process of its own, and answers its
// address.
func (b *bench) startGateway(name, upstream, digest string) (address string, err error) {
	program := b.program("gateway")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/phorge-gantry/gantry/tests/bench/gateway").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	cmd := exec.Command(program, "http://"+upstream, digest, b.program(name+"-calls.log"))
	cmd.Stderr = b.progress
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	p, err := scratch.Spawn(cmd)
	if err != nil {
		return "", fmt.Errorf("start the gateway: %w", err)
	}
	b.atClose(p.Kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the gateway says no address: %w", err)
	}
	return strings.TrimSpace(line), nil
}

// startNginx starts an nginx that passes on to another, or that answers, and
// answers its address.
func (b *bench) startNginx(name, upstream, token string) (address string, err error) {
	port, err := scratch.FreePort()
	if err != nil {
		return "", err
	}
	file := filepath.Join(b.dir, name+".conf")
	f, err := os.Create(file)
	if err != nil {
		return "", err
	}
	err = nginxWays.Execute(f, map[string]any{
		"Dir": b.dir, "Name": name, "Port": port, "Upstream": upstream, "Token": token, "Answer": conduitAnswer, "Root": os.Getuid() == 0,
	})
	if err := errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	path, err := exec.LookPath("nginx")
	if err != nil {
		path = "/usr/sbin/nginx"
	}
	cmd := exec.Command(path, "-c", file, "-e", filepath.Join(b.dir, name+".log"))
	cmd.Stderr = b.progress
	p, err := scratch.Spawn(cmd)
	if err != nil {
		return "", fmt.Errorf("start nginx: %w", err)
	}
	b.atClose(p.Kill)
	address = fmt.Sprintf("127.0.0.1:%d", port)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err = await(ctx, time.Millisecond, func() (bool, error) {
		connection, err := net.Dial("tcp", address)
		if err != nil {
			return false, nil
		}
		return true, connection.Close()
	})
	if err != nil {
		return "", fmt.Errorf("nginx does not listen: %w", err)
	}
	return address, nil
}

// callers is how many connections call at once.
const callers = 16

// through measures calls of one method, by one of the ways.
func (b *bench) through(row string, way func() (address, token string), calls int) measurement {
	return measurement{[]string{row}, func(context.Context) error {
		address, token := way()
		errs := make([]error, callers)
		var wait sync.WaitGroup
		began := time.Now()
		for i := range callers {
			wait.Go(func() { errs[i] = callAgain(address, token, calls/callers) })
		}
		wait.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		b.table.add(row, rate(calls/callers*callers, time.Since(began)))
		return nil
	}}
}

// throughGateways are the measurements of all ways.
func (b *bench) throughGateways() []measurement {
	return []measurement{
		b.through("proxy_nginx", func() (string, string) { return b.toPHP.nginx, b.toPHP.token }, b.passed/10),
		b.through("proxy_gateway", func() (string, string) { return b.toPHP.gateway, b.toPHP.token }, b.passed/10),
		b.through("proxy_nginx_bare", func() (string, string) { return b.toBare.nginx, b.toBare.token }, b.passed),
		b.through("proxy_gateway_bare", func() (string, string) { return b.toBare.gateway, b.toBare.token }, b.passed),
	}
}

// callAgain makes so many calls over one connection. A client of net/http would
// cost more than what is measured.
func callAgain(address, token string, calls int) error {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
		return err
	}
	body := "params=%7B%22__conduit__%22%3A%7B%22token%22%3A%22api-aaaaaaaaaaaaaaaaaaaaaaaaaaaa%22%7D%7D&output=json&__conduit__=1"
	request := fmt.Sprintf("POST /api/user.whoami HTTP/1.1\r\nHost: phorge.example.com\r\nUser-Agent: arc\r\nX-Service-Token: %s\r\n"+
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", token, len(body), body)
	from := bufio.NewReader(connection)
	answer := make([]byte, len(conduitAnswer))
	for range calls {
		if _, err := io.WriteString(connection, request); err != nil {
			return err
		}
		status, err := from.ReadString('\n')
		if err != nil || !strings.HasPrefix(status, "HTTP/1.1 200 ") {
			return fmt.Errorf("answered %q: %w", status, err)
		}
		for line := ""; line != "\r\n"; {
			if line, err = from.ReadString('\n'); err != nil {
				return err
			}
		}
		if _, err := io.ReadFull(from, answer); err != nil || string(answer) != conduitAnswer {
			return fmt.Errorf("answered %q: %w", answer, err)
		}
	}
	return nil
}
