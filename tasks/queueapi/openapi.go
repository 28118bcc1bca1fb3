package queueapi

import _ "embed"

//go:embed openapi.yaml
var openAPI []byte

func document(*call) (answer, error) {
	return answer{bytes: openAPI, mime: "application/yaml"}, nil
}
