package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
)

func serve(service, addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Printf("listening %s\n", listener.Addr())
	if to, found := strings.CutPrefix(service, "proxy="); found {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return err
			}
			go proxy(conn.(*net.TCPConn), to)
		}
	}
	switch service {
	case "echo":
		for {
			conn, err := listener.Accept()
			if err != nil {
				return err
			}
			go echo(conn)
		}
	case "pong":
		return http.Serve(listener, http.HandlerFunc(pong))
	case "httpfile":
		return http.Serve(listener, http.FileServer(http.Dir(os.Getenv("BAST_BENCH_ROOT"))))
	}
	return fmt.Errorf("no service %s", service)
}

func echo(conn net.Conn) {
	defer conn.Close()
	buf := make([]byte, 1024)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		if _, err := conn.Write(buf[:n]); err != nil {
			return
		}
	}
}

// io.Copy splices from one TCP connection to another.
func proxy(client *net.TCPConn, to string) {
	defer client.Close()
	conn, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	upstream := conn.(*net.TCPConn)
	defer upstream.Close()
	done := make(chan struct{})
	go func() {
		_, _ = io.Copy(upstream, client)
		_ = upstream.CloseWrite()
		close(done)
	}()
	_, _ = io.Copy(client, upstream)
	_ = client.CloseWrite()
	<-done
}

func pong(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	// The client that has gone away is seen by the server itself.
	_, _ = w.Write([]byte("Pong!"))
}
