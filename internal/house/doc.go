// Package house has no code: its tests hold the rules of the repository that no
// compiler checks, such as which module may import which. They read files
// outside of their own module, which the test cache does not see: run them with -count=1.
package house
