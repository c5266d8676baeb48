//! Numbers as text.

/// Appends a value as C's `printf("%.10e")` writes it; nothing if it is NaN.
pub fn format_value(value: f64, out: &mut Vec<u8>) {
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

/// Appends a time in seconds, in decimal.
pub fn format_time(time: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(time.to_string().as_bytes());
}
