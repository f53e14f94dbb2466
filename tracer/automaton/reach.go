package automaton

import (
	"cmp"
	"slices"
)

// fillReach gives every node the ranks that can be won from it.
func (n *nfa) fillReach(ends [][]int32) {
	last := make([]rank, len(n.nodes))
	count := make([]int32, len(n.nodes))
	orders := make([][]int, len(n.rankings))
	for l := range n.rankings {
		orders[l] = n.rankings[l].ascending()
	}
	n.eachReach(orders, ends, last, func(at int32, _ rank) { count[at]++ })
	total := int32(0)
	for _, c := range count {
		total += c
	}
	ranks, skip := make([]rank, total), make([]int32, total)
	for i := range n.nodes {
		c := count[i]
		n.nodes[i].reach = reach{ranks[:0:c], skip[:c:c]}
		ranks, skip = ranks[c:], skip[c:]
	}
	clear(last)
	n.eachReach(orders, ends, last, func(at int32, r rank) {
		k := &n.nodes[at].reach
		k.ranks = append(k.ranks, r)
	})
	for i := range n.nodes {
		n.nodes[i].reach.fillSkip()
	}
}

// ascending are the indexes of the outcomes, lowest rank first.
func (rk *ranking) ascending() []int {
	order := make([]int, len(rk.outcomes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(rk.ranks[a], rk.ranks[b]) })
	return order
}

// eachReach visits every node with every rank that can be won from it, lower
// ranks first and none twice. last is scratch, zeroed, by node.
func (n *nfa) eachReach(orders [][]int, ends [][]int32, last []rank, visit func(at int32, r rank)) {
	for l := range n.rankings {
		rk := &n.rankings[l]
		for _, i := range orders[l] {
			r := rk.ranks[i]
			for _, at := range ends[rk.outcomes[i].rule] {
				for ; at != none && last[at] != r; at = n.nodes[at].parent {
					last[at] = r
					visit(at, r)
				}
			}
		}
	}
}

func (k *reach) fillSkip() {
	for j := len(k.ranks) - 1; j >= 0; j-- {
		k.skip[j] = int32(j + 1)
		if j+1 < len(k.ranks) && k.ranks[j].group() == k.ranks[j+1].group() {
			k.skip[j] = k.skip[j+1]
		}
	}
}

// rival is the lowest level above h's floor that would change h's group; settled
// when there is none.
func (k *reach) rival(h hand) int32 {
	lo, hi := 0, len(k.ranks)
	for lo < hi {
		if mid := (lo + hi) / 2; k.ranks[mid].level() > h.floor {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	if lo < len(k.ranks) && k.ranks[lo].group() == h.group {
		lo = int(k.skip[lo])
	}
	if lo == len(k.ranks) {
		return settled
	}
	return k.ranks[lo].level()
}

// most is the highest level that can be won.
func (k *reach) most() int32 { return k.ranks[len(k.ranks)-1].level() }
