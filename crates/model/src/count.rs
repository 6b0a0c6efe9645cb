//! Format of counts in messages.

/// The count with commas between thousands, such as `112,000`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn thousands_are_separated_by_commas() {
        let counts = [0, 999, 1000, 454_983, 1_234_567, u64::MAX];
        let texts = [
            "0",
            "999",
            "1,000",
            "454,983",
            "1,234,567",
            "18,446,744,073,709,551,615",
        ];
        assert_eq!(counts.map(grouped), texts);
    }
}
