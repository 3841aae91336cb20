//! Static tokens: a handful that configuration names, such as the administrator's.

use crate::user::UserInfo;
use crate::{Secret, same_secret};

/// Tokens that do not change while the server runs.
#[derive(Debug, Default)]
pub struct StaticTokens(Vec<(Secret<String>, UserInfo)>);

impl StaticTokens {
    /// Empty tokens are left out: nobody may be authenticated by saying nothing.
    pub fn new(tokens: impl IntoIterator<Item = (Secret<String>, UserInfo)>) -> Self {
        StaticTokens(tokens.into_iter().filter(|(token, _)| !token.expose().is_empty()).collect())
    }

    /// The user of a token. Every known token is compared, so the time taken does not tell which fits.
    #[must_use]
    pub fn user(&self, token: &str) -> Option<UserInfo> {
        let mut found = None;
        for (known, user) in &self.0 {
            if same_secret(known.expose(), token) {
                found = Some(user);
            }
        }
        found.cloned().map(UserInfo::authenticated)
    }
}
