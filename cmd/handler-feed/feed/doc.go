// Package feed executes the tasks that Phorge queues for every story of its
// feed: FeedPublisherWorker, which queues a task for each receiver, and
// FeedPublisherHTTPWorker, which posts the story to one.
//
// Both begin by loading the story, and a story that does not load is a
// permanent failure. Whether it loads depends on what the story is about and
// on the transactions that made it, and so does its text. This package knows
// these rules for tasks of Maniphest and for tokens given to them; stories
// about anything else, and those whose text needs more of Phorge than a few
// rows, are declined before anything is done.
//
// It knows the classes of a Phorge without extensions. Where a library brings a
// DoorkeeperFeedWorker, `gantry run` leaves FeedPublisherWorker to PHP. Where one
// changes what a transaction of Maniphest shows, or translates Phorge's English,
// nobody can see that, and both classes must be left out of the manifest.
package feed
