package pluginpb

import goplugin "github.com/hashicorp/go-plugin"

// Version is the version of the protocol. It is raised when an older handler
// binary could no longer be understood; go-plugin compares it before any call.
const Version = 1

// ServiceName is the name of the one plugin that a handler binary serves.
const ServiceName = "handlers"

// MaxBatch is how many bytes of task data one message gathers at most. A task
// larger than this travels alone.
const MaxBatch = 1 << 20

// Window is the flow-control window of the stream in bytes: enough that a
// full message never waits for the other side to read half of it.
const Window = 4 * MaxBatch

// Handshake answers what a handler binary shows to be one. The cookie is no
// secret: it only tells a start by Gantry from one by hand.
func Handshake() goplugin.HandshakeConfig {
	return goplugin.HandshakeConfig{
		ProtocolVersion:  Version,
		MagicCookieKey:   "GANTRY_HANDLERS",
		MagicCookieValue: "f2c0b2a6d6d94c0b8a1e",
	}
}
