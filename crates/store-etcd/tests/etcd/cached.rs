//! The engine passes the suite also where reads are answered from memory.

use store::conformance::FromMemory;

use crate::conformance::Prefix;

store::conformance!(FromMemory(Prefix::new()));
