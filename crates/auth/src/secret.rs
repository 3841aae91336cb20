//! A value that must not end up in a log.

use std::fmt;

/// Holds key material, tokens and the like; its `Debug` shows nothing of the value.
///
/// There is no `Display` and no `Serialize`: whoever writes a secret somewhere says so with
/// [`Secret::expose`], which is easy to search for.
#[derive(Clone, Default)]
pub struct Secret<T>(T);

impl<T> Secret<T> {
    pub fn new(value: T) -> Self {
        Secret(value)
    }

    pub fn expose(&self) -> &T {
        &self.0
    }

    pub fn into_exposed(self) -> T {
        self.0
    }
}

impl<T> fmt::Debug for Secret<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl<T> From<T> for Secret<T> {
    fn from(value: T) -> Self {
        Secret(value)
    }
}

/// Whether two secrets are equal, in a time that tells nothing about where they differ.
#[must_use]
pub fn same_secret(left: impl AsRef<[u8]>, right: impl AsRef<[u8]>) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(left.as_ref(), right.as_ref()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_nothing() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret");
        assert_eq!(format!("{:?}", Some(Secret::new(vec![1, 2]))), "Some(Secret)");
    }

    #[test]
    fn comparison() {
        assert!(same_secret("abc", "abc"));
        assert!(!same_secret("abc", "abd"));
        assert!(!same_secret("abc", "abcd"));
        assert!(same_secret("", ""));
    }
}
