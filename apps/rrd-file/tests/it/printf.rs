//! `format_value` against `printf` of the C library, whose output rrdtool prints.

use std::ffi::c_char;

use rrd_file::{format_time, format_value};

use crate::random::Random;

fn printf(value: f64) -> Vec<u8> {
    let mut text = [0_u8; 64];
    // SAFETY: the format takes one double, and the buffer is as long as is said.
    let len = unsafe {
        let at = text.as_mut_ptr().cast::<c_char>();
        libc::snprintf(at, text.len(), c"%0.10e".as_ptr(), value)
    };
    text[..len as usize].to_vec()
}

/// Compares with what is appended after something.
fn check(value: f64) {
    for value in [value, -value] {
        let mut ours = b"x".to_vec();
        format_value(value, &mut ours);
        let theirs = if value.is_nan() { Vec::new() } else { printf(value) };
        assert!(
            ours[1..] == theirs,
            "{:#x}: {:?} instead of {:?}",
            value.to_bits(),
            String::from_utf8_lossy(&ours),
            String::from_utf8_lossy(&theirs),
        );
    }
}

/// A double and those around it.
fn check_around(value: f64) {
    for distance in -3..=3 {
        check(f64::from_bits(value.to_bits().saturating_add_signed(distance)));
    }
}

#[test]
fn any_double() {
    let mut random = Random::new(1);
    for _ in 0..200_000 {
        check(f64::from_bits(random.bits()));
    }
}

#[test]
fn usual_values() {
    let mut random = Random::new(2);
    for _ in 0..50_000 {
        let count = random.bits() >> random.below(64);
        check(count as f64);
        check(count as f64 / 300.0);
        check(count as f64 / 100.0);
        check(count as f64 / 2_f64.powi(random.below(80) as i32));
    }
}

#[test]
fn edges() {
    for value in [0.0, f64::INFINITY, f64::NAN, f64::MIN_POSITIVE, f64::MAX, 5e-324] {
        check_around(value);
    }
    for exponent in -324..=308 {
        for digits in ["1", "9.9999999999", "9.99999999995", "9.99999999994999", "4.99999999995"] {
            check_around(format!("{digits}e{exponent}").parse().unwrap());
        }
    }
    for place in 0..64 {
        check_around(2_f64.powi(place));
        check_around(f64::from_bits(1 << place));
    }
}

#[test]
fn halves_go_to_the_even_digit() {
    let mut random = Random::new(3);
    let mut halves = 0;
    for _ in 0..20_000 {
        // Eleven digits and a half; then this times a power of ten, where that is still exact.
        let digits = 10_000_000_000 + random.below(89_000_000_000);
        check_around(digits as f64 + 0.5);
        let tens = 10_u64.pow(random.below(4) as u32);
        check_around((digits * 10 + 5) as f64 * tens as f64);
        // Divided by it: twice this number has to be odd and a multiple of the power of five.
        let fives = 5_u64.pow(random.below(8) as u32);
        let twice = (digits / fives * 2 + 1) * fives;
        check_around(twice as f64 / 2.0 / (1 << fives.ilog(5)) as f64 / fives as f64);
        halves += (digits % 2) as u32;
    }
    assert!(halves > 9000, "even and odd digits");
}

#[test]
fn decimals_of_twelve_digits() {
    let mut random = Random::new(4);
    for _ in 0..50_000 {
        let digits = random.below(90_000_000_000) + 10_000_000_000;
        let exponent = random.below(630) as i64 - 330;
        check_around(format!("{digits}5e{exponent}").parse().unwrap());
    }
}

#[test]
fn times() {
    let mut random = Random::new(5);
    let mut numbers = vec![i64::MIN, -1, 0, 9, 999_999_999, 1_000_000_000, 9_999_999_999, i64::MAX];
    numbers.extend((0..100_000).map(|_| (random.bits() >> random.below(64)) as i64));
    numbers.extend((0..100_000).map(|_| random.below(10_000_000_000) as i64));
    for number in numbers {
        let mut text = Vec::new();
        format_time(number, &mut text);
        assert_eq!(text, number.to_string().into_bytes());
    }
}
