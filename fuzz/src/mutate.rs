//! Inputs made of other inputs: a small fuzzer without coverage, the same on every run.

#![cfg_attr(not(test), allow(dead_code, reason = "libFuzzer has its own"))]

/// Marsaglia's xorshift: repeatable, and random enough for this.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Pieces that parsers treat in a way of their own.
const WORDS: [&[u8]; 40] = [
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"9223372036854775808",
    b"0.1",
    b"\0",
    b"\xff",
    b"\xc3\x28",
    b"\xf0\x9f\x98\x80",
    b"%",
    b"%00",
    b"/",
    b"..",
    b".",
    b"=",
    b"!",
    b"(",
    b")",
    b"'",
    b"*",
    b"$",
    b"{}",
    b"[]",
    b"\"\"",
    b"\n",
    b"  ",
    b"-",
    b"&",
    b"<<",
    b"\\u0000",
    b"x-kubernetes-",
];

/// Another input like this one. `others` lends pieces.
pub fn mutated(input: &[u8], others: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut out = input.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(out.len() + 1);
        let end = (at + random.below(16)).min(out.len());
        match random.below(9) {
            0 if !out.is_empty() => {
                let at = at % out.len();
                out[at] ^= 1 << random.below(8);
            }
            1 if !out.is_empty() => {
                let at = at % out.len();
                out[at] = random.next() as u8;
            }
            2 => drop(out.drain(at..end)),
            3 => out.truncate(at),
            4 => {
                let piece = out[at..end].to_vec();
                let times = 1 + random.below(8);
                out.splice(at..at, piece.repeat(times));
            }
            5 => {
                let other = others[random.below(others.len())];
                let from = random.below(other.len() + 1);
                let to = from + random.below(other.len() + 1 - from);
                out.splice(at..end, other[from..to].iter().copied());
            }
            // Deep nesting, in whatever language it is.
            6 if random.below(8) == 0 => {
                let word = WORDS[random.below(WORDS.len())];
                out.splice(at..at, word.repeat(1 << random.below(12)));
            }
            _ => {
                let word = WORDS[random.below(WORDS.len())];
                out.splice(at..at, word.iter().copied());
            }
        }
    }
    out
}
