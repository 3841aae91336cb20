//! Functions that write values in other ways, and read them.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Arguments, LARGEST, Made, Row, bounded, json, wrong, yaml};
use crate::module::problem::Problem;
use crate::module::term::{Entries, Term};

pub(super) const TABLE: &[Row] = &[
    ("jsonencode", 1, 1, |mut arguments| Ok(Term::String(json::written(&arguments.take(0))))),
    ("jsondecode", 1, 1, |arguments| match json::read(&arguments.text(0)?) {
        Some(term) => Ok(term),
        None => wrong("this is not JSON"),
    }),
    ("yamlencode", 1, 1, |mut arguments| Ok(Term::String(yaml::written(&arguments.take(0))))),
    ("yamldecode", 1, 1, |arguments| {
        let text = arguments.text(0)?;
        // Of the same key twice Terraform takes the last.
        let options =
            serde_saphyr::options! { duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins };
        let empty = text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
        match serde_saphyr::from_str_with_options::<serde_json::Value>(&text, options) {
            Ok(json) if !empty => Ok(Term::from_json(&json)),
            _ => wrong("this is not YAML"),
        }
    }),
    ("csvdecode", 1, 1, csv),
    ("base64encode", 1, 1, |arguments| Ok(Term::text(STANDARD.encode(arguments.text(0)?)))),
    ("base64decode", 1, 1, |arguments| match decoded(&arguments)?.map(String::from_utf8) {
        Some(Ok(text)) => Ok(Term::String(text)),
        _ => wrong("this is not a text in base 64"),
    }),
    ("base64gzip", 1, 1, |arguments| {
        let mut packed = GzEncoder::new(Vec::new(), Compression::default());
        let done = packed.write_all(arguments.text(0)?.as_bytes()).and_then(|()| packed.finish());
        done.map(|bytes| Term::text(STANDARD.encode(bytes))).or_else(|_| wrong("this cannot be packed"))
    }),
    ("base64gunzip", 1, 1, |arguments| {
        let bytes = decoded(&arguments)?.unwrap_or_default();
        let mut text = String::new();
        let unpacked = flate2::read::GzDecoder::new(bytes.as_slice());
        let read = unpacked.take(LARGEST as u64 + 1).read_to_string(&mut text);
        bounded(text.len())?;
        read.map(|_| Term::String(text)).or_else(|_| wrong("this is not a packed text in base 64"))
    }),
    ("textencodebase64", 2, 2, |arguments| {
        let (text, encoding) = (arguments.text(0)?, Encoding::of(&arguments.text(1)?)?);
        match encoding.bytes(&text) {
            Some(bytes) => Ok(Term::text(STANDARD.encode(bytes))),
            None => wrong("the text has a letter that the encoding does not have"),
        }
    }),
    ("textdecodebase64", 2, 2, |arguments| {
        let encoding = Encoding::of(&arguments.text(1)?)?;
        match decoded(&arguments)?.and_then(|bytes| encoding.text(&bytes)) {
            Some(text) => Ok(Term::String(text)),
            None => wrong("this is not a text in base 64 and that encoding"),
        }
    }),
    ("urlencode", 1, 1, |arguments| {
        let mut out = String::new();
        for byte in arguments.text(0)?.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
                b' ' => out.push('+'),
                other => out.push_str(&format!("%{other:02X}")),
            }
        }
        Ok(Term::String(out))
    }),
];

fn decoded(arguments: &Arguments) -> Result<Option<Vec<u8>>, Problem> {
    Ok(STANDARD.decode(arguments.text(0)?.replace(['\r', '\n'], "")).ok())
}

/// Encodings by their registered names. Those of the web that mean another one (as it takes Latin-1 for Windows') are
/// our own.
enum Encoding {
    /// The first letters of Unicode, up to this one.
    First(u32),
    Utf16 {
        big: bool,
        marked: bool,
    },
    Table(&'static encoding_rs::Encoding),
}

impl Encoding {
    fn of(name: &str) -> Result<Encoding, Problem> {
        match name.to_ascii_uppercase().as_str() {
            "US-ASCII" | "ASCII" => Ok(Encoding::First(0x7f)),
            "ISO-8859-1" | "LATIN1" => Ok(Encoding::First(0xff)),
            "UTF-16LE" => Ok(Encoding::Utf16 { big: false, marked: false }),
            "UTF-16BE" => Ok(Encoding::Utf16 { big: true, marked: false }),
            "UTF-16" => Ok(Encoding::Utf16 { big: true, marked: true }),
            _ => match encoding_rs::Encoding::for_label_no_replacement(name.as_bytes()) {
                Some(table) => Ok(Encoding::Table(table)),
                None => wrong("the encoding is not known here"),
            },
        }
    }

    /// Nothing if there is a letter that the encoding does not have.
    fn bytes(&self, text: &str) -> Option<Vec<u8>> {
        match self {
            Encoding::First(last) => {
                let byte =
                    |letter: char| u32::from(letter).try_into().ok().filter(|_| u32::from(letter) <= *last);
                text.chars().map(byte).collect()
            }
            Encoding::Utf16 { big, marked } => {
                let mark = marked.then_some(0xfeff);
                let bytes = |unit: u16| if *big { unit.to_be_bytes() } else { unit.to_le_bytes() };
                Some(mark.into_iter().chain(text.encode_utf16()).flat_map(bytes).collect())
            }
            Encoding::Table(table) => {
                let (bytes, _, lost) = table.encode(text);
                (!lost).then(|| bytes.into_owned())
            }
        }
    }

    fn text(&self, bytes: &[u8]) -> Option<String> {
        match self {
            Encoding::First(last) => {
                let letter = |byte: &u8| Some(char::from(*byte)).filter(|_| u32::from(*byte) <= *last);
                bytes.iter().map(letter).collect()
            }
            Encoding::Utf16 { big, marked } => {
                let (bytes, big) = match bytes {
                    [0xff, 0xfe, rest @ ..] if *marked => (rest, false),
                    [0xfe, 0xff, rest @ ..] if *marked => (rest, true),
                    bytes => (bytes, *big),
                };
                let unit = |pair: &[u8]| {
                    let pair = [pair[0], pair[1]];
                    if big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
                };
                let units: Vec<u16> = bytes.chunks_exact(2).map(unit).collect();
                String::from_utf16(&units).ok().filter(|_| bytes.len().is_multiple_of(2))
            }
            Encoding::Table(table) => {
                let text = table.decode_without_bom_handling_and_without_replacement(bytes)?;
                Some(text.into_owned())
            }
        }
    }
}

/// The lines of a table, each with the names of the first.
fn csv(arguments: Arguments) -> Made {
    let mut rows = rows(&arguments.text(0)?)?.into_iter();
    let Some(names) = rows.next() else { return wrong("the table has no first line") };
    if names.iter().collect::<BTreeSet<_>>().len() < names.len() {
        return wrong("two columns have the same name");
    }
    let line = |row: Vec<String>| {
        if row.len() != names.len() {
            return wrong("a line of the table has more or fewer columns than the first");
        }
        let cells = names.iter().cloned().zip(row.into_iter().map(Term::String));
        Ok(Term::Object(cells.collect::<Entries>()))
    };
    Ok(Term::List(rows.map(line).collect::<Result<_, _>>()?))
}

/// As RFC 4180 has it.
fn rows(text: &str) -> Result<Vec<Vec<String>>, Problem> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut letters = text.chars().peekable();
    let mut quoted = false;
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' if quoted => quoted = false,
            '"' if cell.is_empty() => quoted = true,
            '"' => return wrong("a quote stands within a cell"),
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\r' if !quoted && letters.peek() == Some(&'\n') => {}
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            other => cell.push(other),
        }
    }
    if quoted {
        return wrong("the table ends within quotes");
    }
    if !cell.is_empty() || !row.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    // An empty line is none.
    rows.retain(|row| row.iter().any(|cell| !cell.is_empty()) || row.len() > 1);
    Ok(rows)
}
