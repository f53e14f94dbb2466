package automaton_test

import (
	"fmt"

	"github.com/reeve-audit/reeve/tracer/automaton"
)

func Example() {
	rules := []automaton.Rule{
		{Glob: "/ws", Below: true},
		{Glob: "/ws/**/*secret*", Below: true},
		{Glob: "/**/.env*", Layer: 1, Below: true},
	}
	a, err := automaton.Compile(rules, automaton.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, path := range []string{"/ws/main.go", "/ws/my-secrets/.env", "/etc/.envrc"} {
		fmt.Println(path, a.Match(path))
	}
	secret := func(accept uint32) bool { return a.Winners(accept)[0] == 1 }
	example, found := a.Hole("/ws/src", secret)
	fmt.Println(example, found)
	// Output:
	// /ws/main.go [0 -1]
	// /ws/my-secrets/.env [1 2]
	// /etc/.envrc [-1 2]
	// /ws/src/secret true
}
