//! Functions that write values in other ways, and read them.

use std::io::{Read as _, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::{Arguments, LARGEST, Made, Row, bounded, wrong};
use crate::module::problem::Problem;
use crate::module::term::{Entries, Term};

pub(super) const TABLE: &[Row] = &[
    ("jsonencode", 1, 1, |mut arguments| Ok(Term::text(arguments.take(0).to_json().to_string()))),
    ("jsondecode", 1, 1, |arguments| match serde_json::from_str(&arguments.text(0)?) {
        Ok(json) => Ok(Term::from_json(&json)),
        Err(_) => wrong("this is not JSON"),
    }),
    ("yamlencode", 1, 1, |mut arguments| {
        let mut out = String::new();
        yaml(&arguments.take(0), 0, &mut out);
        Ok(Term::String(out))
    }),
    ("yamldecode", 1, 1, |arguments| {
        match serde_saphyr::from_str::<serde_json::Value>(&arguments.text(0)?) {
            Ok(json) => Ok(Term::from_json(&json)),
            Err(_) => wrong("this is not YAML"),
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
        Ok(Term::text(STANDARD.encode(encoding.bytes(&text))))
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
    Ok(STANDARD.decode(arguments.text(0)?).ok())
}

/// The encodings that anybody still asks for.
enum Encoding {
    Utf8,
    Utf16 { big: bool },
}

impl Encoding {
    fn of(name: &str) -> Result<Encoding, Problem> {
        match name.to_ascii_uppercase().as_str() {
            "UTF-8" => Ok(Encoding::Utf8),
            "UTF-16LE" => Ok(Encoding::Utf16 { big: false }),
            "UTF-16BE" => Ok(Encoding::Utf16 { big: true }),
            _ => wrong("only the encodings UTF-8, UTF-16LE and UTF-16BE are known here"),
        }
    }

    fn bytes(&self, text: &str) -> Vec<u8> {
        match self {
            Encoding::Utf8 => text.as_bytes().to_vec(),
            Encoding::Utf16 { big } => text
                .encode_utf16()
                .flat_map(|unit| if *big { unit.to_be_bytes() } else { unit.to_le_bytes() })
                .collect(),
        }
    }

    fn text(&self, bytes: &[u8]) -> Option<String> {
        match self {
            Encoding::Utf8 => String::from_utf8(bytes.to_vec()).ok(),
            Encoding::Utf16 { big } => {
                let unit = |pair: &[u8]| {
                    let pair = [pair[0], pair[1]];
                    if *big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
                };
                let units: Vec<u16> = bytes.chunks_exact(2).map(unit).collect();
                String::from_utf16(&units).ok().filter(|_| bytes.len().is_multiple_of(2))
            }
        }
    }
}

/// In blocks, with all texts quoted: what Terraform writes. The nesting of terms is bounded where they are made.
fn yaml(term: &Term, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match term {
        Term::Map(entries) if !entries.is_empty() => {
            for (at, (key, value)) in entries.iter().enumerate() {
                if at > 0 || !out.ends_with("- ") {
                    out.push_str(&indent);
                }
                out.push_str(&format!("{}:", serde_json::Value::from(key.as_str())));
                match value {
                    Term::Map(inner) if !inner.is_empty() => {
                        out.push('\n');
                        yaml(value, depth + 1, out);
                    }
                    Term::List(inner) | Term::Set(inner) if !inner.is_empty() => {
                        out.push('\n');
                        yaml(value, depth, out);
                    }
                    plain => {
                        out.push(' ');
                        yaml(plain, depth, out);
                    }
                }
            }
        }
        Term::List(elements) | Term::Set(elements) if !elements.is_empty() => {
            for (at, element) in elements.iter().enumerate() {
                if at > 0 || !out.ends_with("- ") {
                    out.push_str(&indent);
                }
                out.push_str("- ");
                yaml(element, depth + 1, out);
            }
        }
        plain => {
            out.push_str(&plain.to_json().to_string());
            out.push('\n');
        }
    }
}

/// The lines of a table, each with the names of the first.
fn csv(arguments: Arguments) -> Made {
    let mut rows = rows(&arguments.text(0)?)?.into_iter();
    let Some(names) = rows.next() else { return wrong("the table has no first line") };
    let line = |row: Vec<String>| {
        if row.len() != names.len() {
            return wrong("a line of the table has more or fewer columns than the first");
        }
        let cells = names.iter().cloned().zip(row.into_iter().map(Term::String));
        Ok(Term::Map(cells.collect::<Entries>()))
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
