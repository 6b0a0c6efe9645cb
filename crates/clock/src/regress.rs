//! Weighted least squares with a few parameters.

/// Parameters of a fit and their variances.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fit<const N: usize> {
    pub value: [f64; N],
    /// Variances, provided that each weight is one over the variance of its observation.
    pub variance: [f64; N],
}

/// Minimises `Σ w (y − Σ_k x_k β_k)² + Σ_k prior_k β_k²`. A prior is one over the variance of a
/// parameter around 0; 0 makes no assumption. None if the observations do not determine the
/// parameters.
pub(crate) fn weighted<const N: usize>(
    observations: impl Iterator<Item = ([f64; N], f64, f64)>,
    prior: [f64; N],
) -> Option<Fit<N>> {
    let mut normal = [[0.0; N]; N];
    let mut right = [0.0; N];
    for (x, y, w) in observations {
        for a in 0..N {
            right[a] += w * x[a] * y;
            for b in 0..N {
                normal[a][b] += w * x[a] * x[b];
            }
        }
    }
    for k in 0..N {
        normal[k][k] += prior[k];
    }
    let inverse = invert(normal)?;
    let row = |k: usize| inverse[k].iter().zip(&right).map(|(m, r)| m * r).sum();
    Some(Fit {
        value: std::array::from_fn(row),
        variance: std::array::from_fn(|k| inverse[k][k]),
    })
}

/// Gauss-Jordan without a search for pivots: every invertible matrix here is symmetric and positive
/// definite. The matrix is first scaled to a unit diagonal, because offsets and rates differ by
/// many powers of ten.
fn invert<const N: usize>(matrix: [[f64; N]; N]) -> Option<[[f64; N]; N]> {
    let scale: [f64; N] = std::array::from_fn(|k| matrix[k][k].sqrt().recip());
    let mut left: [[f64; N]; N] =
        std::array::from_fn(|a| std::array::from_fn(|b| matrix[a][b] * scale[a] * scale[b]));
    let mut right: [[f64; N]; N] =
        std::array::from_fn(|a| std::array::from_fn(|b| f64::from(u8::from(a == b))));
    for k in 0..N {
        let pivot = left[k][k];
        // A NaN, from a diagonal of 0, is refused as well.
        if pivot.is_nan() || pivot < 1e-12 {
            return None;
        }
        for b in 0..N {
            left[k][b] /= pivot;
            right[k][b] /= pivot;
        }
        for a in (0..N).filter(|a| *a != k) {
            let factor = left[a][k];
            for b in 0..N {
                left[a][b] -= factor * left[k][b];
                right[a][b] -= factor * right[k][b];
            }
        }
    }
    Some(std::array::from_fn(|a| {
        std::array::from_fn(|b| right[a][b] * scale[a] * scale[b])
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scales differ by 1e9, as those of offsets and rates do. The conditioning itself is not
    /// tested, as the data of Longley would.
    #[test]
    fn the_fit_of_a_line_and_its_variances_equal_those_by_hand() {
        let points = [(0.0, 1.0), (1.0, 3.0), (2.0, 2.0), (3.0, 5.0)];
        let fit = weighted(points.iter().map(|(x, y)| ([1.0, x * 1e9], *y, 2.0)), [0.0; 2]).unwrap();
        // By hand: slope Sxy/Sxx = 5.5/5, intercept 2.75 - 1.1 * 1.5; variances (1/n + mean²/Sxx)/w
        // and 1/(w Sxx).
        assert!((fit.value[0] - 1.1).abs() < 1e-9 && (fit.value[1] - 1.1e-9).abs() < 1e-18);
        assert!((fit.variance[0] - 0.35).abs() < 1e-9 && (fit.variance[1] - 1e-19).abs() < 1e-27);
    }

    #[test]
    fn a_prior_determines_parameters_that_the_data_do_not() {
        let twice = || [([1.0, 5.0], 2.0, 1.0), ([1.0, 5.0], 4.0, 1.0)].into_iter();
        assert!(weighted(twice(), [0.0; 2]).is_none());
        assert!(weighted(std::iter::empty(), [0.0; 2]).is_none());
        let fit = weighted(twice(), [0.0, 1e6]).unwrap();
        assert!((fit.value[0] - 3.0).abs() < 1e-3 && fit.value[1].abs() < 1e-4);
    }
}
