//! The store on etcd: its own revisions, transactions and watches.
