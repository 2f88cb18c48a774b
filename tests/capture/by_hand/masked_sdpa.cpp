cpp_fused__scaled_dot_product_flash_attention_for_cpu_arange_expand_lt_mul_scalar_tensor_unsqueeze_where_0 forward
o      | auto tmp0 = Vectorized<float>::loadu(in_ptr0 + (x0), (8));
o      | auto tmp1 = static_cast<float>(0.5);
o      | auto tmp2 = Vectorized<float>(tmp1);
o      | auto tmp3 = tmp0 * tmp2;
o      | tmp3.store(out_ptr0 + (x0));
mask   | auto tmp0 = in_ptr1[(x0)];
places | auto tmp1 = x2;
places | auto tmp2 = c10::convert<int64_t>(tmp1);
places | auto tmp3 = VectorizedN<int64_t,2>::arange(tmp2, 1);
mask   | auto tmp4 = VectorizedN<int64_t,2>(tmp0);
mask   | auto tmp5 = VecMask<int64_t,2>(tmp3 < tmp4);
bias   | auto tmp6 = static_cast<float>(0.0);
bias   | auto tmp7 = static_cast<float>(-10000.0);
bias   | auto tmp8 = Vectorized<float>(tmp6);
bias   | auto tmp9 = Vectorized<float>(tmp7);
bias   | auto tmp10 = decltype(tmp8)::blendv(tmp9, tmp8, tmp5.template cast<float,1>());
bias o | tmp10.store(out_ptr1 + (x2 + 16L*x1 + 1024L*x0));

cpp_fused_add_tanh_1 forward
out | auto tmp0 = Vectorized<float>::loadu(in_out_ptr0 + (x0), (8));
out | auto tmp2 = Vectorized<float>::loadu(in_ptr0 + (x0), (8));
out | auto tmp1 = tmp0.tanh();
out | auto tmp3 = tmp1 + tmp2;
out | tmp3.store(in_out_ptr0 + (x0));
