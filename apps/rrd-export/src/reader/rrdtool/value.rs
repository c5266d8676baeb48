//! Numbers of a reply: `printf("%0.10e")`, millions of them.
//!
//! One digit, ten digits and an exponent make an integer below 2^53 and a power of ten; both are exact in an `f64` as
//! long as the power is at most 10^22, so one multiplication or division rounds once, as a parser must (Clinger 1990).
//! Everything else (larger exponents, `nan`, `inf`) goes to std's parser.

/// Powers of ten that are exact.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];

/// The number that a word stands for.
pub(crate) fn parse(word: &[u8]) -> Option<f64> {
    match word {
        b"-nan" | b"nan" => Some(f64::NAN),
        _ => fast(word).or_else(|| str::from_utf8(word).ok()?.parse().ok()),
    }
}

/// `[-]d.dddddddddde±dd`, if that is exact.
fn fast(word: &[u8]) -> Option<f64> {
    let (negative, word) = match word {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, word),
    };
    let &[first, b'.', ref digits @ .., b'e', sign, tens, ones] = word else { return None };
    let digits: &[u8; 10] = digits.try_into().ok()?;
    let mut all = digit(first)?;
    for digit_ in digits {
        all = all * 10 + digit(*digit_)?;
    }
    let power = (digit(tens)? * 10 + digit(ones)?) as i64;
    let power = match sign {
        b'+' => power - 10,
        b'-' => -power - 10,
        _ => return None,
    };
    let scale = *POWERS.get(power.unsigned_abs() as usize)?;
    let value = if power < 0 { all as f64 / scale } else { all as f64 * scale };
    Some(if negative { -value } else { value })
}

fn digit(byte: u8) -> Option<u64> {
    byte.is_ascii_digit().then(|| u64::from(byte - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_parser_of_std_says() {
        // A linear congruence over bit patterns: every exponent comes up.
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        let mut exact = 0;
        for round in 0..200_000 {
            bits = bits.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let value = if round % 2 == 0 { f64::from_bits(bits) } else { bits as f64 / 1e12 };
            if !value.is_finite() {
                continue;
            }
            let rust = format!("{value:.10e}");
            let (digits, power) = rust.split_once('e').unwrap();
            let power: i32 = power.parse().unwrap();
            let text = format!("{digits}e{}{:02}", if power < 0 { '-' } else { '+' }, power.abs());
            exact += u32::from(fast(text.as_bytes()).is_some());
            let parsed = parse(text.as_bytes()).unwrap();
            assert_eq!(parsed.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
        }
        assert!(exact > 90_000, "only {exact} went the fast way");
    }

    #[test]
    fn what_is_no_number_is_told() {
        assert!(parse(b"-nan").unwrap().is_nan() && parse(b"nan").unwrap().is_nan());
        assert_eq!(parse(b"inf"), Some(f64::INFINITY));
        assert_eq!(parse(b"-0.0000000000e+00").map(f64::to_bits), Some((-0.0_f64).to_bits()));
        for word in
            [&b""[..], b"-", b"1.0000000000e", b"1.00000000x0e+00", b"one", b"1.0000000000e+0x"]
        {
            assert_eq!(parse(word), None, "{}", word.escape_ascii());
        }
    }
}
