package event

import "encoding/json"

// Detail is what stands as JSON in the Detail of an operation's record, where there is
// something to say.
type Detail struct {
	// Question is the ID of the question whose answer decided the operation.
	Question string `json:"question,omitempty"`
	// Content is that of a program without a name that an exec is about.
	Content *Content `json:"content,omitempty"`
}

// Content says what a file held when it was judged. Unless it is Sealed it may hold
// something else by the time it runs.
type Content struct {
	// Size is the file's, bytes.
	Size uint64 `json:"size"`
	// SHA256 is in hexadecimal digits, that of the first Hashed bytes, which are all
	// where Hashed is 0. It is empty where none of the file could be read.
	SHA256 string `json:"sha256,omitempty"`
	Hashed uint64 `json:"hashed,omitempty"`
	// Sealed says that nobody can change the content (fcntl F_SEAL_WRITE).
	Sealed bool `json:"sealed,omitempty"`
}

// String is the JSON text, empty where there is nothing to say.
func (d Detail) String() string {
	if d == (Detail{}) {
		return ""
	}
	text, err := json.Marshal(d)
	if err != nil { // of texts and numbers it cannot fail
		panic("bug: encode detail: " + err.Error())
	}
	return string(text)
}

// ReadDetail is what the record of an operation says in its Detail.
func (e *Event) ReadDetail() (d Detail) {
	if e.Kind == KindRequest && e.Detail != "" {
		_ = json.Unmarshal([]byte(e.Detail), &d) // what it does not say is not said
	}
	return d
}
