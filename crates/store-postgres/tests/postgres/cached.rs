//! The engine passes the suite also where reads are answered from memory.

use store::conformance::FromMemory;

use crate::conformance::Place;

store::conformance!(FromMemory(Place::new()));
