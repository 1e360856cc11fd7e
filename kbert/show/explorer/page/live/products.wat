;; The product of two matrices, y = x · W + bias, in WebAssembly with its 128-bit vectors.
;;
;; products.wasm is this file, assembled (wasmtime.wat2wasm); a test compares the two.
;;
;; x has rows of `inputs` numbers, y has rows of 8 · `panels`; all numbers are float32, and `rows` is a
;; multiple of 4. W is stored in panels of 8 outputs, [panels][inputs][8], so that the weights of one
;; input and 8 outputs are two vectors side by side. Of each panel, four rows of x at a time share every
;; load of weights: their sums, four times 8 numbers, stay in eight registers.
;;
;;            panel p               y
;;   inputs ┌──────────┐   rows  ┌──────────┐
;;   of x → │ 8 weights│       → │ 8 sums   │
;;          └──────────┘         └──────────┘
;;
;; Sums of 64 inputs are added to y, which begins as the bias: one sum of all inputs would round more.
(module
  (import "page" "memory" (memory 1))

  ;; Addresses and strides (from one row to the next) are in bytes.
  (func (export "multiply")
    (param $x i32) (param $x_stride i32)
    (param $weights i32) (param $bias i32)
    (param $y i32) (param $y_stride i32)
    (param $rows i32) (param $inputs i32) (param $panels i32)

    (local $row i32)            ;; rows of this panel that are left
    (local $input i32)          ;; inputs of these rows that are left
    (local $some i32)           ;; those of them, at most 64, whose sums are in registers
    (local $w i32)              ;; the weights of the next input
    (local $x0 i32) (local $x1 i32) (local $x2 i32) (local $x3 i32)   ;; its place in four rows
    (local $y0 i32) (local $y1 i32) (local $y2 i32) (local $y3 i32)   ;; their sums in y
    (local $left v128) (local $right v128)     ;; weights of outputs 0 … 3 and 4 … 7
    (local $number v128)                       ;; one number of x, four times
    (local $l0 v128) (local $r0 v128)          ;; the sums of row 0, and so on
    (local $l1 v128) (local $r1 v128)
    (local $l2 v128) (local $r2 v128)
    (local $l3 v128) (local $r3 v128)

    (loop $next_panel
      (local.set $row (local.get $rows))
      (local.set $x3 (i32.sub (local.get $x) (local.get $x_stride)))
      (local.set $y3 (i32.sub (local.get $y) (local.get $y_stride)))

      (loop $next_rows
        (local.set $x0 (i32.add (local.get $x3) (local.get $x_stride)))
        (local.set $x1 (i32.add (local.get $x0) (local.get $x_stride)))
        (local.set $x2 (i32.add (local.get $x1) (local.get $x_stride)))
        (local.set $x3 (i32.add (local.get $x2) (local.get $x_stride)))
        (local.set $y0 (i32.add (local.get $y3) (local.get $y_stride)))
        (local.set $y1 (i32.add (local.get $y0) (local.get $y_stride)))
        (local.set $y2 (i32.add (local.get $y1) (local.get $y_stride)))
        (local.set $y3 (i32.add (local.get $y2) (local.get $y_stride)))
        (local.set $w (local.get $weights))

        (local.set $left (v128.load (local.get $bias)))
        (local.set $right (v128.load offset=16 (local.get $bias)))
        (v128.store (local.get $y0) (local.get $left)) (v128.store offset=16 (local.get $y0) (local.get $right))
        (v128.store (local.get $y1) (local.get $left)) (v128.store offset=16 (local.get $y1) (local.get $right))
        (v128.store (local.get $y2) (local.get $left)) (v128.store offset=16 (local.get $y2) (local.get $right))
        (v128.store (local.get $y3) (local.get $left)) (v128.store offset=16 (local.get $y3) (local.get $right))

        (local.set $input (local.get $inputs))
        (loop $next_sums
          (local.set $some (select (local.get $input) (i32.const 64) (i32.lt_u (local.get $input) (i32.const 64))))
          (local.set $input (i32.sub (local.get $input) (local.get $some)))
          (local.set $l0 (v128.const i32x4 0 0 0 0)) (local.set $r0 (local.get $l0))
          (local.set $l1 (local.get $l0)) (local.set $r1 (local.get $l0))
          (local.set $l2 (local.get $l0)) (local.set $r2 (local.get $l0))
          (local.set $l3 (local.get $l0)) (local.set $r3 (local.get $l0))

          (loop $next_input
            (local.set $left (v128.load (local.get $w)))
            (local.set $right (v128.load offset=16 (local.get $w)))

            (local.set $number (v128.load32_splat (local.get $x0)))
            (local.set $l0 (f32x4.add (local.get $l0) (f32x4.mul (local.get $number) (local.get $left))))
            (local.set $r0 (f32x4.add (local.get $r0) (f32x4.mul (local.get $number) (local.get $right))))

            (local.set $number (v128.load32_splat (local.get $x1)))
            (local.set $l1 (f32x4.add (local.get $l1) (f32x4.mul (local.get $number) (local.get $left))))
            (local.set $r1 (f32x4.add (local.get $r1) (f32x4.mul (local.get $number) (local.get $right))))

            (local.set $number (v128.load32_splat (local.get $x2)))
            (local.set $l2 (f32x4.add (local.get $l2) (f32x4.mul (local.get $number) (local.get $left))))
            (local.set $r2 (f32x4.add (local.get $r2) (f32x4.mul (local.get $number) (local.get $right))))

            (local.set $number (v128.load32_splat (local.get $x3)))
            (local.set $l3 (f32x4.add (local.get $l3) (f32x4.mul (local.get $number) (local.get $left))))
            (local.set $r3 (f32x4.add (local.get $r3) (f32x4.mul (local.get $number) (local.get $right))))

            (local.set $w (i32.add (local.get $w) (i32.const 32)))
            (local.set $x0 (i32.add (local.get $x0) (i32.const 4)))
            (local.set $x1 (i32.add (local.get $x1) (i32.const 4)))
            (local.set $x2 (i32.add (local.get $x2) (i32.const 4)))
            (local.set $x3 (i32.add (local.get $x3) (i32.const 4)))
            (local.set $some (i32.sub (local.get $some) (i32.const 1)))
            (br_if $next_input (local.get $some)))

          (v128.store (local.get $y0) (f32x4.add (v128.load (local.get $y0)) (local.get $l0)))
          (v128.store (local.get $y1) (f32x4.add (v128.load (local.get $y1)) (local.get $l1)))
          (v128.store (local.get $y2) (f32x4.add (v128.load (local.get $y2)) (local.get $l2)))
          (v128.store (local.get $y3) (f32x4.add (v128.load (local.get $y3)) (local.get $l3)))
          (v128.store offset=16 (local.get $y0) (f32x4.add (v128.load offset=16 (local.get $y0)) (local.get $r0)))
          (v128.store offset=16 (local.get $y1) (f32x4.add (v128.load offset=16 (local.get $y1)) (local.get $r1)))
          (v128.store offset=16 (local.get $y2) (f32x4.add (v128.load offset=16 (local.get $y2)) (local.get $r2)))
          (v128.store offset=16 (local.get $y3) (f32x4.add (v128.load offset=16 (local.get $y3)) (local.get $r3)))
          (br_if $next_sums (local.get $input)))

        ;; $x3 is behind its row: back to its beginning
        (local.set $x3 (i32.sub (local.get $x3) (i32.shl (local.get $inputs) (i32.const 2))))
        (local.set $row (i32.sub (local.get $row) (i32.const 4)))
        (br_if $next_rows (i32.gt_s (local.get $row) (i32.const 0))))

      (local.set $weights (i32.add (local.get $weights) (i32.shl (local.get $inputs) (i32.const 5))))
      (local.set $bias (i32.add (local.get $bias) (i32.const 32)))
      (local.set $y (i32.add (local.get $y) (i32.const 32)))
      (local.set $panels (i32.sub (local.get $panels) (i32.const 1)))
      (br_if $next_panel (local.get $panels))))
)
