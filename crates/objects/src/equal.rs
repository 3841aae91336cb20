//! Equality of values by meaning: `1` and `1.0` are one number.
//!
//! A write that changes nothing by this measure is no write: revision and generation stay.

use serde_json::{Number, Value};

/// Whether two values say the same.
pub fn semantic(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => numbers(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| semantic(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| semantic(a, b)))
        }
        (a, b) => a == b,
    }
}

fn numbers(a: &Number, b: &Number) -> bool {
    match (whole(a), whole(b)) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a.as_f64() == b.as_f64(),
        _ => false,
    }
}

/// The integer a number is, however it is written. A float beyond the range of `i128` keeps its own company.
fn whole(number: &Number) -> Option<i128> {
    if let Some(integer) = number.as_i64() {
        return Some(integer.into());
    }
    if let Some(integer) = number.as_u64() {
        return Some(integer.into());
    }
    let float = number.as_f64()?;
    (float.fract() == 0.0 && float.abs() < 1e38).then_some(float as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_meaning() {
        for (a, b, same) in [
            ("1", "1.0", true),
            ("1", "1e0", true),
            ("0", "-0.0", true),
            ("1", "1.5", false),
            ("18446744073709551615", "18446744073709551615", true),
            ("9007199254740993", "9007199254740992.0", false),
            ("1e300", "1e300", true),
            ("1e300", "1e299", false),
            (r#"{"a":[1,{"b":2.0}]}"#, r#"{"a":[1.0,{"b":2}]}"#, true),
            (r#"{"a":null}"#, "{}", false),
            ("[1,2]", "[2,1]", false),
            ("\"1\"", "1", false),
        ] {
            let (left, right) = (serde_json::from_str(a).unwrap(), serde_json::from_str(b).unwrap());
            assert_eq!(semantic(&left, &right), same, "{a} {b}");
            assert_eq!(semantic(&right, &left), same, "{b} {a}");
        }
    }
}
