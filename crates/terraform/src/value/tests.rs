//! Round trips of values, for any type.
