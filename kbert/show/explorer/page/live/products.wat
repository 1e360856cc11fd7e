;; The product of two matrices, y = x · W + bias, in WebAssembly with its 128-bit vectors.
;;
;; products.wasm is this file, assembled (wasmtime.wat2wasm); a test compares the two.
;;
;; x has rows of `inputs` numbers, y has rows of 8 · `panels`; all numbers are float32. W is stored in
;; panels of 8 outputs, [panels][inputs][8], so that the weights of one input and 8 outputs are two
;; vectors side by side. Of each panel, four rows of x at a time share every load of weights: their
;; sums, four times 8 numbers, stay in eight registers until all inputs are added.
;;
;;            panel p               y
;;   inputs ┌──────────┐   rows  ┌──────────┐
;;   of x → │ 8 weights│       → │ 8 sums   │
;;          └──────────┘         └──────────┘
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
    (local $w i32)              ;; the weights of the next input
    (local $x0 i32) (local $x1 i32) (local $x2 i32) (local $x3 i32)   ;; its place in four rows
    (local $out i32)            ;; the row of y to be written
    (local $x_row i32)          ;; the first row of x that is being multiplied
    (local $left v128) (local $right v128)     ;; weights of outputs 0 … 3 and 4 … 7
    (local $number v128)                       ;; one number of x, four times
    (local $l0 v128) (local $r0 v128)          ;; the sums of row 0, and so on
    (local $l1 v128) (local $r1 v128)
    (local $l2 v128) (local $r2 v128)
    (local $l3 v128) (local $r3 v128)

    (block $done
      (loop $next_panel
        (br_if $done (i32.eqz (local.get $panels)))
        (local.set $row (local.get $rows))
        (local.set $x_row (local.get $x))
        (local.set $out (local.get $y))

        ;; Four rows at a time.
        (block $fewer_than_four
          (loop $next_rows
            (br_if $fewer_than_four (i32.lt_s (local.get $row) (i32.const 4)))
            (local.set $x0 (local.get $x_row))
            (local.set $x1 (i32.add (local.get $x0) (local.get $x_stride)))
            (local.set $x2 (i32.add (local.get $x1) (local.get $x_stride)))
            (local.set $x3 (i32.add (local.get $x2) (local.get $x_stride)))
            (local.set $x_row (i32.add (local.get $x3) (local.get $x_stride)))
            (local.set $w (local.get $weights))

            (local.set $l0 (v128.load (local.get $bias)))
            (local.set $r0 (v128.load offset=16 (local.get $bias)))
            (local.set $l1 (local.get $l0)) (local.set $r1 (local.get $r0))
            (local.set $l2 (local.get $l0)) (local.set $r2 (local.get $r0))
            (local.set $l3 (local.get $l0)) (local.set $r3 (local.get $r0))

            (local.set $input (local.get $inputs))
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
              (local.set $input (i32.sub (local.get $input) (i32.const 1)))
              (br_if $next_input (local.get $input)))

            (v128.store (local.get $out) (local.get $l0))
            (v128.store offset=16 (local.get $out) (local.get $r0))
            (local.set $out (i32.add (local.get $out) (local.get $y_stride)))
            (v128.store (local.get $out) (local.get $l1))
            (v128.store offset=16 (local.get $out) (local.get $r1))
            (local.set $out (i32.add (local.get $out) (local.get $y_stride)))
            (v128.store (local.get $out) (local.get $l2))
            (v128.store offset=16 (local.get $out) (local.get $r2))
            (local.set $out (i32.add (local.get $out) (local.get $y_stride)))
            (v128.store (local.get $out) (local.get $l3))
            (v128.store offset=16 (local.get $out) (local.get $r3))
            (local.set $out (i32.add (local.get $out) (local.get $y_stride)))

            (local.set $row (i32.sub (local.get $row) (i32.const 4)))
            (br $next_rows)))

        ;; The last one to three rows, one at a time.
        (block $no_row
          (loop $next_row
            (br_if $no_row (i32.eqz (local.get $row)))
            (local.set $x0 (local.get $x_row))
            (local.set $x_row (i32.add (local.get $x0) (local.get $x_stride)))
            (local.set $w (local.get $weights))
            (local.set $l0 (v128.load (local.get $bias)))
            (local.set $r0 (v128.load offset=16 (local.get $bias)))

            (local.set $input (local.get $inputs))
            (loop $next_input
              (local.set $number (v128.load32_splat (local.get $x0)))
              (local.set $l0 (f32x4.add (local.get $l0)
                (f32x4.mul (local.get $number) (v128.load (local.get $w)))))
              (local.set $r0 (f32x4.add (local.get $r0)
                (f32x4.mul (local.get $number) (v128.load offset=16 (local.get $w)))))
              (local.set $w (i32.add (local.get $w) (i32.const 32)))
              (local.set $x0 (i32.add (local.get $x0) (i32.const 4)))
              (local.set $input (i32.sub (local.get $input) (i32.const 1)))
              (br_if $next_input (local.get $input)))

            (v128.store (local.get $out) (local.get $l0))
            (v128.store offset=16 (local.get $out) (local.get $r0))
            (local.set $out (i32.add (local.get $out) (local.get $y_stride)))
            (local.set $row (i32.sub (local.get $row) (i32.const 1)))
            (br $next_row)))

        (local.set $weights (i32.add (local.get $weights) (i32.shl (local.get $inputs) (i32.const 5))))
        (local.set $bias (i32.add (local.get $bias) (i32.const 32)))
        (local.set $y (i32.add (local.get $y) (i32.const 32)))
        (local.set $panels (i32.sub (local.get $panels) (i32.const 1)))
        (br $next_panel))))
)
