//! Passwords in a file, as PostgreSQL's own clients read them: `host:port:database:user:password`, a line each.

use std::path::Path;

use crate::address::AddressError;

/// Whom a password is for.
pub(crate) struct Login<'a> {
    pub host: &'a str,
    pub port: u16,
    pub database: &'a str,
    pub user: &'a str,
}

pub(crate) struct Passfile(String);

impl Passfile {
    pub(crate) fn read(path: &Path) -> Result<Passfile, AddressError> {
        use std::os::unix::fs::PermissionsExt;
        let bad = |why: String| AddressError::Passfile { file: path.display().to_string(), why };
        let mode = std::fs::metadata(path).map_err(|error| bad(error.to_string()))?.permissions().mode();
        // As psql has it: what others can read is not a secret.
        if mode & 0o077 != 0 {
            return Err(bad("others may read it; make it u=rw (0600) or less".into()));
        }
        std::fs::read_to_string(path).map(Passfile).map_err(|error| bad(error.to_string()))
    }

    /// One that nobody named: as with PostgreSQL's own clients, it helps if it can be used.
    pub(crate) fn found(path: &Path) -> Option<Passfile> {
        if !path.exists() {
            return None;
        }
        let read = Passfile::read(path);
        read.inspect_err(|error| tracing::warn!(%error, "passwords are not looked for there")).ok()
    }

    /// Of the first line that is for this login.
    pub(crate) fn password(&self, login: &Login<'_>) -> Option<String> {
        let port = login.port.to_string();
        let wanted = [login.host, &port, login.database, login.user];
        self.0.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
            let fields = fields(line);
            let [told @ .., password] = fields.as_slice() else { return None };
            let fits = |(told, wanted): (&String, &&str)| told == "*" || told == wanted;
            (told.len() == 4 && told.iter().zip(&wanted).all(fits)).then(|| password.clone())
        })
    }
}

/// Five of them, a backslash before what is meant as itself; the last goes on to the end of the line.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ':' if fields.len() < 5 => fields.push(String::new()),
            letter => {
                let meant = if letter == '\\' { letters.next().unwrap_or(letter) } else { letter };
                fields.last_mut().into_iter().for_each(|field| field.push(meant));
            }
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_fits_counts() {
        let file = Passfile(
            "# h:1:d:u:comment\nh:1:d:other:no\nh:1:d\nh:2:*:u:two\n*:1:d:u:a\\:b\\\\c:d\nh:1:d:u:late\n"
                .into(),
        );
        let check = |host: &str, port: u16, database: &str, user: &str, expected: Option<&str>| {
            let found = file.password(&Login { host, port, database, user });
            assert_eq!(found.as_deref(), expected, "{host}:{port}:{database}:{user}");
        };
        check("h", 1, "d", "u", Some("a:b\\c:d"));
        check("h", 2, "any", "u", Some("two"));
        check("h", 1, "d", "other", Some("no"));
        check("h", 3, "d", "u", None);
    }
}
