// Package fetch calls HTTP servers as Phorge's HTTPSFuture does, for handlers
// of classes that call out.
//
// What a receiver sees and what the caller learns are those of HTTPSFuture on
// libcurl: the request line and the headers in the order of libcurl, redirects
// followed by its rules, its error numbers, and Phorge's reading of the
// response. So a status that a handler stores means what it meant when PHP had
// stored it.
//
// Other than there, the address that Blacklist.Check allowed is the one that is
// called, each redirect is checked as the first URI was, a header marked
// SameOrigin goes nowhere else, and proxies are not taken from the environment.
package fetch
