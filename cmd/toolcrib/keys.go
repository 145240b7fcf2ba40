package main

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/toolcrib/toolcrib/internal/core/config"
	"github.com/toolcrib/toolcrib/pkg/contracts"
)

// keyPrefix is how API keys begin, so that one that has got somewhere can be recognised.
const keyPrefix = "toolcrib_"

// A newKey is an API key and what the configuration has of it.
type newKey struct {
	Tenant  contracts.TenantID `json:"tenant"`
	Key     string             `json:"key"`
	Name    string             `json:"name"`
	Hash    contracts.Hash     `json:"hash"`
	Scopes  []string           `json:"scopes"`
	Expires string             `json:"expires,omitempty"`
}

func (a *app) keysCommand() *cobra.Command {
	var tenant, name, expires string
	var scopes []string
	c := &cobra.Command{
		Use: "new", Short: "Make an API key: print it once, and the lines of the configuration that let it in", Args: exactly(0),
		Long: "Make an API key. It is printed once and kept nowhere: the configuration has its hash only.\n" +
			"It lets somebody in once the lines are in the configuration and the gateway has been started again.",
		Example: "  toolcrib keys new --tenant acme --name agents --scopes runs,read --expires 90d",
		RunE: func(*cobra.Command, []string) error {
			k, err := makeKey(tenant, name, scopes, expires, time.Now())
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(k)
			}
			return a.printKey(k)
		},
	}
	c.Flags().StringVar(&tenant, "tenant", "", "the tenant's id")
	c.Flags().StringVar(&name, "name", "", "names the key in records and logs; unique in the tenant")
	c.Flags().StringSliceVar(&scopes, "scopes", nil, "what it may do: runs, approve, admin, read")
	c.Flags().StringVar(&expires, "expires", "", "when it ends: a time from now in days or hours, such as 90d or 12h, or a date; never where it is left out")
	return group("keys", "Make API keys", c)
}

// makeKey makes a key with a secret of 130 random bits.
func makeKey(tenant, name string, scopes []string, expires string, now time.Time) (newKey, error) {
	t, err := contracts.ParseTenantID(tenant)
	if err != nil {
		return newKey{}, usagef("--tenant: is %q; want the id of a tenant, 1 to 63 characters of a-z, 0-9 and '-'", tenant)
	}
	until, err := expiry(expires, now)
	if err != nil {
		return newKey{}, err
	}
	k := newKey{Tenant: t, Key: keyPrefix + rand.Text(), Name: name, Scopes: scopes, Expires: until}
	k.Hash = contracts.HashOf([]byte(k.Key))
	text, err := k.lines()
	if err != nil {
		return newKey{}, err
	}
	if _, err := config.Parse([]byte(text), "the key"); err != nil { // the rules are those of the file
		return newKey{}, usageError{err}
	}
	return k, nil
}

// expiry returns when a key made now ends, "" for never, in the form of the configuration.
func expiry(s string, now time.Time) (string, error) {
	wrong := usagef("--expires: is %q; want a time from now in days or hours, such as 90d or 12h, or a date to come such as 2027-03-01", s)
	n, unit := strings.TrimRight(s, "dh"), time.Hour
	if strings.HasSuffix(s, "d") {
		unit = 24 * time.Hour
	}
	if count, err := strconv.ParseUint(n, 10, 16); err == nil && len(s) == len(n)+1 && count > 0 {
		return now.Add(time.Duration(count) * unit).UTC().Format(time.RFC3339), nil
	}
	if s != "" && !(config.Key{Expires: s}).Until().After(now) {
		return "", wrong
	}
	return s, nil
}

// lines returns what belongs in the configuration.
func (k newKey) lines() (string, error) {
	entry := yaml.MapSlice{{Key: "name", Value: k.Name}, {Key: "hash", Value: string(k.Hash)}, {Key: "scopes", Value: slices.Clone(k.Scopes)}}
	if k.Expires != "" {
		entry = append(entry, yaml.MapItem{Key: "expires", Value: k.Expires})
	}
	tenants := yaml.MapSlice{{Key: "tenants", Value: yaml.MapSlice{{Key: string(k.Tenant), Value: yaml.MapSlice{{Key: "keys", Value: []yaml.MapSlice{entry}}}}}}}
	text, err := yaml.Marshal(tenants)
	if err != nil {
		return "", fmt.Errorf("write the lines of the configuration: %w", err)
	}
	return string(text), nil
}

func (a *app) printKey(k newKey) error {
	text, err := k.lines()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.stdout, "The key, which is shown this once:\n\n%s\n\nIts place in toolcrib.yaml:\n\n%s", k.Key, text)
	return err
}
