//! Parts of a fleet that are worked on apart from each other, each by one process at a time.

use std::fmt;

use objects::CompactString;
use sha2::{Digest, Sha256};

/// One of the parts that control planes are divided into, by their names: so it is the same in every process, after every
/// restart and for every control plane that ever has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    of: u64,
}

impl Shard {
    /// All parts, where there are so many.
    pub fn all(of: u64) -> impl Iterator<Item = Shard> {
        (0..of).map(move |index| Shard { index, of })
    }

    pub fn contains(self, control_plane: &str) -> bool {
        let hash = Sha256::digest(control_plane);
        let number = hash.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        number % self.of == self.index
    }

    /// Who is to work on it, of those that are there: each in turn, so that nobody has two parts more than another.
    pub(crate) fn is_of(self, member: &str, members: &[CompactString]) -> bool {
        let turn = members.iter().cycle().nth(usize::try_from(self.index).unwrap_or(usize::MAX));
        turn.is_some_and(|turn| turn == member)
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // With their number: those of another number are others.
        write!(f, "{}-of-{}", self.index, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_plane_is_in_one() {
        let mut sizes = [0; 8];
        for number in 0..1_000 {
            let name = format!("team-{number}");
            let of: Vec<usize> = Shard::all(8)
                .enumerate()
                .filter(|(_, shard)| shard.contains(&name))
                .map(|(i, _)| i)
                .collect();
            assert_eq!(of.len(), 1, "{name}");
            sizes[of[0]] += 1;
        }
        assert!(sizes.iter().all(|size| (80..170).contains(size)), "{sizes:?}");
        // What was decided once stays: processes of different versions have to agree.
        assert!(Shard { index: 4, of: 8 }.contains("host"));
        assert_eq!(Shard { index: 4, of: 8 }.to_string(), "4-of-8");
    }

    #[test]
    fn everybody_has_a_fair_share() {
        for count in 1..12 {
            let members: Vec<CompactString> = (0..count).map(|i| format!("m{i:02}").into()).collect();
            let share = |member: &str| Shard::all(8).filter(|shard| shard.is_of(member, &members)).count();
            let shares: Vec<usize> = members.iter().map(|member| share(member)).collect();
            assert_eq!(shares.iter().sum::<usize>(), 8, "{shares:?}");
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1, "{shares:?}");
        }
        assert!(!Shard { index: 0, of: 1 }.is_of("m", &[]));
    }
}
