//! Numbers as text, as fast as rows are read.
//!
//! A value has 11 digits before it is rounded, and they come from one multiplication:
//!
//! ```text
//!   value x 10^(10 - k)  =  w x p  =  12345678901 . 1000110...
//!                                     ^ 11 digits   ^ at least 26 bits of the fraction
//! ```
//!
//! `w` is exact, and `p`, the power of ten, is too small by less than two units of its last place (see [`powers`]).
//! So the upper half of the product is too small by at most two. If that could change on which side of one half the
//! fraction is, which is once in ten million times or for a value that does lie there, the standard library
//! is asked, which computes with as many bits as it takes.

use crate::powers;

/// Appends a value as C's `printf("%.10e")` writes it, which is how rrdtool prints it: the nearest of such
/// decimals to the exact value of the double, and the even one of two that are as near. Of NaN it
/// appends nothing.
///
/// ```
/// let mut out = Vec::new();
/// rrd_file::format_value(1234.5, &mut out);
/// assert_eq!(out, b"1.2345000000e+03");
/// ```
#[inline]
pub fn format_value(value: f64, out: &mut Vec<u8>) {
    let bits = value.to_bits();
    let exponent = (bits >> 52) as i32 & 0x7ff;
    let mantissa = bits & ((1 << 52) - 1);
    if bits << 1 == 0 {
        return write(value.is_sign_negative(), 0, 0, out);
    }
    if exponent == 0 || exponent == 0x7ff {
        return format_rare(value, out);
    }
    // value = w * 2^(binary - 63)
    let (w, binary) = ((mantissa | 1 << 52) << 11, exponent - 1023);
    // 10^k <= value < 10^(k + 1)
    let below = (binary * 78_913) >> 18;
    let above = powers::exponent(below + 1) == binary && w >= powers::digits(below + 1);
    let k = below + i32::from(above);

    let product = u128::from(w) * u128::from(powers::digits(10 - k));
    let high = (product >> 64) as u64;
    let fraction_bits = 62 - binary - powers::exponent(10 - k);
    let fraction = high & ((1 << fraction_bits) - 1);
    let half = 1 << (fraction_bits - 1);
    if fraction.wrapping_sub(half - 2) <= 2 {
        return format_rare(value, out);
    }
    let digits = (high >> fraction_bits) + u64::from(fraction > half);
    write(value.is_sign_negative(), digits, k, out);
}

/// Of 9.99999999996 the digits are 10^11: they may be one more than eleven.
#[inline]
fn write(negative: bool, digits: u64, k: i32, out: &mut Vec<u8>) {
    let over = digits >= 100_000_000_000;
    let (digits, k) = if over { (digits / 10, k + 1) } else { (digits, k) };
    let (first, rest) = (digits / 10_000_000_000, digits % 10_000_000_000);
    let (high, low) = (two(rest / 100_000_000), eight(rest % 100_000_000));
    let (sign, k) = (if k < 0 { b'-' } else { b'+' }, u64::from(k.unsigned_abs()));
    if negative {
        out.push(b'-');
    }
    // In registers: what is stored by bytes and then loaded by words waits for the stores.
    let begin = (first + u64::from(b'0')) | u64::from(b'.') << 8 | high << 16 | low << 32;
    let end = low >> 32 | u64::from(b'e') << 32 | u64::from(sign) << 40;
    if k < 100 {
        let text = u128::from(begin) | u128::from(end | two(k) << 48) << 64;
        out.extend_from_slice(&text.to_le_bytes());
    } else {
        let text = u128::from(begin) | u128::from(end) << 64;
        out.extend_from_slice(&text.to_le_bytes()[..14]);
        out.push(b'0' + (k / 100) as u8);
        out.extend_from_slice(&two(k % 100).to_le_bytes()[..2]);
    }
}

/// Two digits of a number below 100, the first in the lowest byte.
#[inline]
fn two(n: u64) -> u64 {
    let tens = (n * 103) >> 10;
    (tens | (n - tens * 10) << 8) + 0x3030
}

/// Eight digits of a number below 10^8: halves, quarters and digits, all at once in parts of one word.
#[inline]
fn eight(n: u64) -> u64 {
    let fours = (n / 10_000) | ((n % 10_000) << 32);
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = ((twos * 103) >> 10) & 0xf_000f_000f_000f;
    (tens | (twos - tens * 10) << 8) + 0x3030_3030_3030_3030
}

/// What the multiplication is not for, or does not decide.
#[cold]
fn format_rare(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        return;
    }
    if value.is_infinite() {
        out.extend_from_slice(if value < 0.0 { b"-inf" } else { b"inf" });
        return;
    }
    let text = format!("{value:.10e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    out.extend_from_slice(format!("{digits}e{sign}{exponent:0>2}").as_bytes());
}

/// Appends a time in seconds, or any other integer, in decimal.
#[inline]
pub fn format_time(time: i64, out: &mut Vec<u8>) {
    // Ten digits: from 2001 to 2286.
    if !(1_000_000_000..10_000_000_000).contains(&time) {
        out.extend_from_slice(time.to_string().as_bytes());
        return;
    }
    let mut text = [0; 10];
    let (high, low) = (two(time as u64 / 100_000_000), eight(time as u64 % 100_000_000));
    text[..2].copy_from_slice(&high.to_le_bytes()[..2]);
    text[2..].copy_from_slice(&low.to_le_bytes());
    out.extend_from_slice(&text);
}
