package guard

import (
	"errors"
	"net/netip"
	"testing"
)

func TestCheck(t *testing.T) {
	tests := []struct {
		address string
		zero    bool // allowed by the zero Config
		private bool // allowed by Private
	}{
		{"8.8.8.8", true, true},
		{"1.1.1.1", true, true},
		{"172.15.255.255", true, true},
		{"172.32.0.1", true, true},
		{"100.63.255.255", true, true},
		{"100.128.0.0", true, true},
		{"2606:4700::1111", true, true},
		{"::ffff:8.8.8.8", true, true},
		{"64:ff9b::8.8.8.8", true, true},

		{"127.0.0.1", false, true},
		{"127.255.255.254", false, true},
		{"::1", false, true},
		{"::ffff:127.0.0.1", false, true},
		{"10.0.0.1", false, true},
		{"172.16.0.1", false, true},
		{"192.168.1.1", false, true},
		{"100.64.0.1", false, true},
		{"fc00::1", false, true},
		{"fd12:3456::1", false, true},
		{"::ffff:10.1.2.3", false, true},
		{"64:ff9b::10.0.0.1", false, true},
		{"64:ff9b::127.0.0.1", false, true},

		{"0.0.0.0", false, false},
		{"0.1.2.3", false, false},
		{"::", false, false},
		{"::ffff:0.0.0.0", false, false},
		{"::127.0.0.1", false, false}, // compatible form of old
		{"::ffff:0:127.0.0.1", false, false},
		{"169.254.169.254", false, false},
		{"::ffff:169.254.169.254", false, false},
		{"64:ff9b::169.254.169.254", false, false},
		{"64:ff9b:1::169.254.169.254", false, false},
		{"169.254.1.1", false, false},
		{"100.100.100.200", false, false},
		{"168.63.129.16", false, false},
		{"192.0.0.192", false, false},
		{"fd00:ec2::254", false, false},
		{"fd20:ce::254", false, false},
		{"fe80::1", false, false},
		{"fe80::1%eth0", false, false},
		{"febf::1", false, false},
		{"fec0::1", false, false},
		{"224.0.0.1", false, false},
		{"239.255.255.250", false, false},
		{"ff02::1", false, false},
		{"255.255.255.255", false, false},
		{"240.0.0.1", false, false},
		{"192.0.2.1", false, false},
		{"198.18.0.1", false, false},
		{"198.51.100.1", false, false},
		{"203.0.113.1", false, false},
		{"2001:db8::1", false, false},
		{"2001::1", false, false},           // Teredo
		{"2002:7f00:1::", false, false},     // 6to4 of 127.0.0.1
		{"2002:a9fe:a9fe::1", false, false}, // 6to4 of 169.254.169.254
		{"2002:808:808::1", false, false},   // 6to4 of a public address: nobody serves there
		{"100::1", false, false},            // discarded
		{"4000::1", false, false},           // not assigned
		{"5f00::1", false, false},
	}
	for _, tt := range tests {
		a := netip.MustParseAddr(tt.address)
		if err := check(a, false, nil); (err == nil) != tt.zero {
			t.Errorf("check(%s) = %v, want allowed %v", a, err, tt.zero)
		}
		if err := check(a, true, nil); (err == nil) != tt.private {
			t.Errorf("check(%s) with private = %v, want allowed %v", a, err, tt.private)
		}
		if err := check(a, false, everything()); err != nil {
			t.Errorf("check(%s) with every network = %v, want nil", a, err)
		}
		if err := check(a, false, nil); err != nil {
			if _, ok := errors.AsType[*Refusal](err); !ok {
				t.Errorf("check(%s) = %T, want a Refusal", a, err)
			}
		}
	}
}

func TestCheckAllow(t *testing.T) {
	allow := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("169.254.169.254/32"), netip.MustParsePrefix("fd00::/64")}
	for address, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "64:ff9b::10.1.2.3": true, "169.254.169.254": true, "fd00::5": true, "8.8.8.8": true,
		"10.2.0.1": false, "127.0.0.1": false, "fd00:1::5": false, "169.254.169.253": false,
	} {
		if err := check(netip.MustParseAddr(address), false, allow); (err == nil) != want {
			t.Errorf("check(%s) = %v, want allowed %v", address, err, want)
		}
	}
}
