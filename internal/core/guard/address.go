package guard

import (
	"net/netip"
	"slices"
)

// A class is what kind of network an address belongs to.
type class int

const (
	public  class = iota
	private       // this machine, and networks that people build
	special       // reserved for a purpose; nothing that serves a tenant is there
)

// check returns a [Refusal] unless a may be connected to.
func check(a netip.Addr, privateToo bool, allowed []netip.Prefix) error {
	forms := embedded(a)
	for _, f := range forms {
		for _, p := range allowed {
			if p.Contains(f) {
				return nil
			}
		}
	}
	worst, what := public, ""
	for _, f := range forms {
		if c, w := classOf(f); c > worst {
			worst, what = c, w
		}
	}
	if worst == public || worst == private && privateToo {
		return nil
	}
	return refuse("%s is %s, which is not allowed here", a.WithZone(""), what)
}

// embedded returns a, without zone, and the IPv4 address that it stands for, if any.
// An IPv6 address that is made of an IPv4 one is judged by that, and one with a zone is link-local whatever it says.
func embedded(a netip.Addr) []netip.Addr {
	a = a.WithZone("").Unmap()
	if a.Is4() {
		return []netip.Addr{a}
	}
	b := a.As16()
	v4 := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(b[i : i+4])) }
	switch {
	case within(a, "64:ff9b::/96"): // NAT64: what is reached is the IPv4 address alone
		return []netip.Addr{v4(12)}
	case within(a, "2002::/16"): // 6to4
		return []netip.Addr{a, v4(2)}
	}
	return []netip.Addr{a}
}

func within(a netip.Addr, prefix string) bool { return netip.MustParsePrefix(prefix).Contains(a) }

// A network is a range of addresses that is not public.
type network struct {
	prefix netip.Prefix
	class  class
	what   string
}

// networks returns all networks that are not public, the more special first.
func networks() []network {
	list := []struct {
		class    class
		what     string
		prefixes []string
	}{
		// The metadata services of clouds, which give out credentials.
		{special, "a metadata address", []string{
			"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
			"fd00:ec2::/32", "fd20:ce::254/128",
		}},
		{special, "a link-local address", []string{"169.254.0.0/16", "fe80::/10"}},
		{special, "an unspecified address", []string{"0.0.0.0/8", "::/128"}},
		{special, "a multicast address", []string{"224.0.0.0/4", "ff00::/8"}},
		{private, "a loopback address", []string{"127.0.0.0/8", "::1/128"}},
		{private, "a private address", []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"}},
		{private, "a shared address of a provider's network", []string{"100.64.0.0/10"}},
		{special, "a reserved address", []string{
			"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
			"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
		}},
	}
	var out []network
	for _, l := range list {
		for _, p := range l.prefixes {
			out = append(out, network{netip.MustParsePrefix(p), l.class, l.what})
		}
	}
	return out
}

// classOf returns the class of a, and the word for it where it is not public.
func classOf(a netip.Addr) (class, string) {
	all := networks()
	if i := slices.IndexFunc(all, func(n network) bool { return n.prefix.Contains(a) }); i >= 0 {
		return all[i].class, all[i].what
	}
	if a.Is6() && !within(a, "2000::/3") { // nothing else is assigned
		return special, "a reserved address"
	}
	return public, ""
}
