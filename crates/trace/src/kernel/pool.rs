//! Values that threads share or own: tables of descriptors, working directories.

/// Values with the number of threads that use them. The index of an unused value is reused.
#[derive(Debug)]
pub(super) struct Pool<T> {
    all: Vec<(T, u32)>,
    free: Vec<usize>,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T: Default> Pool<T> {
    /// Adds a value of one thread and returns its index.
    pub(super) fn add(&mut self, value: T) -> usize {
        if let Some(index) = self.free.pop() {
            self.all[index] = (value, 1);
            return index;
        }
        self.all.push((value, 1));
        self.all.len() - 1
    }

    /// The value at an index that is in use.
    pub(super) fn get(&mut self, index: usize) -> &mut T {
        &mut self.all[index].0
    }

    /// Adds a thread to the users of a value.
    pub(super) fn share(&mut self, index: usize) {
        self.all[index].1 += 1;
    }

    /// Whether several threads use a value.
    pub(super) fn is_shared(&self, index: usize) -> bool {
        self.all[index].1 > 1
    }

    /// Removes a thread from the users of a value. Returns the value if it was the last one.
    pub(super) fn leave(&mut self, index: usize) -> Option<T> {
        let (value, threads) = &mut self.all[index];
        *threads = threads.saturating_sub(1);
        if *threads > 0 {
            return None;
        }
        self.free.push(index);
        Some(std::mem::take(value))
    }
}
